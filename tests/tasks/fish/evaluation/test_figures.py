"""Figures of hand-made tables of deaths."""

from __future__ import annotations

import numpy as np
import pytest

from longhaul.tasks.fish.evaluation.evaluation import survival_metrics


def test_every_figure_of_a_small_table() -> None:
    deaths = np.array([[1, 99, 100, -1], [500, 149, 150, -1]], np.int32)
    figures = survival_metrics(deaths, time_limit=500)
    steps = sorted([1, 99, 100, 500, 500, 149, 150, 500])
    assert figures == pytest.approx(
        {
            "avg_final_survival_rate": 0.25,
            "min_final_survival_rate": 0.25,
            "avg_min_survival_rate": 0.25,
            "min_of_min_survival_rate": 0.25,
            "median_min_survival_rate": 0.25,
            "mean_death_step": sum(steps) / 8,
            # A fish that dies in the very last step counts here, and only here.
            "survival_fraction": 3 / 8,
            "total_fish_samples": 8,
            "step_one_death_count": 1,
            "step_one_death_ratio": 1 / 8,
            "early_death_fraction_100": 2 / 8,
            "early_death_fraction_150": 4 / 8,
            "p10": 1 + 0.7 * 98,
            "p25": 99 + 0.75 * 1,
            "median_death_step": 149.5,
            "p75": 500,
            "p90": 500,
        }
    )


def test_the_worst_episode_is_the_minimum() -> None:
    deaths = np.array([[-1, -1], [3, -1], [-1, -1]], np.int32)
    figures = survival_metrics(deaths, time_limit=500)
    assert figures["min_final_survival_rate"] == 0.5
    assert figures["avg_final_survival_rate"] == pytest.approx(5 / 6)
    assert figures["median_min_survival_rate"] == 1.0
