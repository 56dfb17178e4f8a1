"""Intervals and probabilities, against slow formulas and known cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.report.statistics import (
    bootstrap,
    improvement,
    interquartile_mean,
    mean,
    paired_difference,
    probability_of_improvement,
)

SCORES = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=40)


def slow_interquartile_mean(scores: list[float]) -> float:
    """Cut off floor(n / 4) at either end, as a trimmed mean of 25 % does."""
    ranked = sorted(scores)
    for _ in range(len(scores) // 4):
        ranked = ranked[1:-1]
    return sum(ranked) / len(ranked)


def slow_probability(ours: list[float], theirs: list[float]) -> float:
    """The mean over all pairs of 1 for a win, a half for a tie and 0 for a loss."""
    wins = [1.0 if a > b else 0.5 if a == b else 0.0 for a in ours for b in theirs]
    return sum(wins) / len(wins)


@given(SCORES)
def test_the_interquartile_mean_is_the_mean_of_the_middle_half(scores: list[float]) -> None:
    found = interquartile_mean(np.array(scores))
    assert float(found) == pytest.approx(slow_interquartile_mean(scores), abs=1e-6)


def test_the_interquartile_mean_forgets_outliers() -> None:
    assert interquartile_mean(np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1e9])) == 3.5


@given(SCORES, SCORES)
def test_the_probability_counts_pairs(ours: list[float], theirs: list[float]) -> None:
    found = probability_of_improvement(np.array(ours), np.array(theirs))
    assert found == pytest.approx(slow_probability(ours, theirs))
    other = probability_of_improvement(np.array(theirs), np.array(ours))
    assert found + other == pytest.approx(1.0)


def test_the_interval_of_a_mean_is_as_wide_as_theory_says() -> None:
    scores = np.random.default_rng(3).normal(10.0, 2.0, 400)
    found = bootstrap([scores], mean, resamples=3000)
    half = 1.96 * scores.std() / np.sqrt(len(scores))
    assert found.value == pytest.approx(scores.mean())
    assert found.high - found.value == pytest.approx(half, rel=0.1)
    assert found.value - found.low == pytest.approx(half, rel=0.1)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    generator = np.random.default_rng(5)
    covered = 0
    for _ in range(120):
        found = bootstrap([generator.normal(0.0, 1.0, 40)], mean, resamples=200)
        covered += found.low <= 0.0 <= found.high
    assert 0.88 <= covered / 120 <= 0.99


def test_strata_are_drawn_from_each_for_itself() -> None:
    # Between the strata lie 100 points, within them nothing: only mixing them gives an interval.
    found = bootstrap([np.zeros(5), np.full(5, 100.0)], mean, resamples=200)
    assert (found.low, found.value, found.high) == (50.0, 50.0, 50.0)


def test_the_same_scores_give_the_same_digits() -> None:
    scores = [np.arange(20.0)]
    assert bootstrap(scores, mean, resamples=100) == bootstrap(scores, mean, resamples=100)
    assert improvement(scores, scores, resamples=50) == improvement(scores, scores, resamples=50)


def test_what_always_wins_improves_for_certain() -> None:
    found = improvement([np.arange(5.0) + 100], [np.arange(5.0)], resamples=100)
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)


def test_pairing_sees_what_the_spread_of_cases_hides() -> None:
    cases = np.random.default_rng(0).normal(0.0, 100.0, 50)
    ours = cases + 1.0 + np.random.default_rng(1).normal(0.0, 0.1, 50)
    found = paired_difference(ours, cases, resamples=500)
    assert found.low > 0.9
    assert found.high < 1.1
    assert improvement([ours], [cases], resamples=50).low < 0.5
