"""Policies without learning, on the 84 episodes they are recorded for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from longhaul.tasks.fish.evaluation.evaluation import survival_metrics
from longhaul.tasks.fish.evaluation.reference_policies import always, flee, reference_policies
from longhaul.tasks.fish.evaluation.suites import SUITE_FISH, play_suite, version_38
from longhaul.tasks.fish.options import FishOptions
from tests.tasks.fish.worlds import REFERENCE_OPTIONS, placed

RECORDED = {
    "forward": (0.505, 0.365, 0.117, 83, 0.0196),
    "random": (0.738, 0.594, 0.100, 99, 0.0200),
    "keep": (0.741, 0.490, 0.091, 112, 0.0200),
    "left": (0.820, 0.542, 0.122, 69, 0.0202),
    "brake": (0.827, 0.677, 0.092, 112, 0.0201),
    "flee": (0.909, 0.750, 0.031, 500, 0.0175),
    "sidestep": (0.931, 0.760, 0.020, 500, 0.0181),
    "sidestep, safe side": (0.981, 0.938, 0.019, 500, 0.0181),
    "planner, safe side": (0.982, 0.938, 0.018, 500, 0.0175),
}


QUICK = ("random", "brake", "flee")
"""Those whose figures every run of the tests checks."""


def test_every_recorded_policy_is_offered() -> None:
    assert reference_policies(np.random.default_rng(0)).keys() == RECORDED.keys()


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in RECORDED],
)
def test_a_reference_policy_does_as_recorded(name: str) -> None:
    policy = reference_policies(np.random.default_rng(0))[name]
    outcome = play_suite(version_38(), REFERENCE_OPTIONS, policy)
    assert outcome.shape == (84, SUITE_FISH)
    figures = survival_metrics(outcome, time_limit=500)
    average, minimum, early, p10, step_one = RECORDED[name]
    loose = 10 if name == "random" else 1
    assert figures["avg_final_survival_rate"] == pytest.approx(average, abs=0.001 * loose)
    assert figures["min_final_survival_rate"] == pytest.approx(minimum, abs=0.006 * loose)
    assert figures["early_death_fraction_100"] == pytest.approx(early, abs=0.001 * loose)
    assert figures["p10"] == pytest.approx(p10, abs=0.5 * loose)
    assert figures["step_one_death_ratio"] == pytest.approx(step_one, abs=0.0002)


def test_a_suite_played_on_two_threads_goes_the_same() -> None:
    suite = replace(version_38(), fish=10)
    alone = play_suite(suite, REFERENCE_OPTIONS, flee)
    shared = play_suite(suite, REFERENCE_OPTIONS, flee, threads=2)
    np.testing.assert_array_equal(alone, shared)


def test_what_fish_see_changes_nothing_about_the_episodes() -> None:
    suite = replace(version_38(), fish=10)
    one = play_suite(suite, REFERENCE_OPTIONS, always(1))
    two = play_suite(suite, FishOptions(short_share=0.8, time_limit=60), always(1))
    np.testing.assert_array_equal(one, two)


def test_fleeing_turns_away_from_the_predator() -> None:
    options = FishOptions(fish=4, inputs="world")
    bodies = (
        (1.0, 0.0, 1.0, 0.0),  # swims away already
        (0.0, 1.0, 1.0, 0.0),  # must turn left
        (0.0, -1.0, 1.0, 0.0),  # must turn right
        (9.0, 0.0, 1.0, 0.0),  # sees nothing
    )
    view = placed(options, bodies, (0.0, 0.0, 0.0, 0.0))
    assert flee(view.obs).tolist() == [0, 1, 2, 4]
