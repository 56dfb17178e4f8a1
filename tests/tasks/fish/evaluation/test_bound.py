"""The deaths nothing can avoid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from longhaul.tasks.fish.evaluation.suites import (
    V38_EPISODES,
    begin_suite,
    fresh,
    unavoidable,
    version_38,
)
from longhaul.tasks.fish.options import FishEvaluationOptions, FishOptions, PredatorOptions

VARIANTS = {
    "two predators": FishOptions(predator=PredatorOptions(count=2)),
    "homing": FishOptions(predator=PredatorOptions(homing=2.0)),
    "obstacles": FishOptions(obstacles=((3.0, 0.0, 1.5), (-4.0, 2.0, 1.0))),
}


def test_the_seven_recorded_counts_come_out() -> None:
    floor = unavoidable(version_38(), FishOptions())
    by_evaluation = floor.counts.reshape(7, V38_EPISODES).sum(axis=1)
    assert by_evaluation.tolist() == [20, 20, 16, 24, 13, 21, 27]
    assert floor.best_average == pytest.approx(0.98251, abs=1e-5)
    assert floor.best_minimum == 0.9375


def test_the_floor_does_not_depend_on_what_fish_see_or_are_paid() -> None:
    suite = fresh(0, FishEvaluationOptions(episodes=20))
    world = unavoidable(suite, FishOptions(inputs="world"))
    np.testing.assert_array_equal(world.doomed, unavoidable(suite, FishOptions()).doomed)


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_the_doomed_of_every_world_die_whatever_everybody_does(options: FishOptions) -> None:
    suite = replace(fresh(3, FishEvaluationOptions(episodes=40)), fish=40)
    floor = unavoidable(suite, options)
    assert floor.counts.sum() > 0
    generator = np.random.default_rng(0)
    survived = np.zeros_like(floor.doomed)
    for _ in range(30):
        schools, _ = begin_suite(suite, suite.options(options))
        schools.step(0, schools.count, generator.integers(0, 5, floor.doomed.size))
        survived |= schools.world.alive
    assert not survived[floor.doomed].any()
    # With thirty tries, everybody who could survive did.
    assert survived[~floor.doomed].all()


def test_more_predators_doom_more_fish() -> None:
    suite = fresh(0, FishEvaluationOptions(episodes=50))
    one = unavoidable(suite, FishOptions())
    two = unavoidable(suite, VARIANTS["two predators"])
    assert (two.doomed >= one.doomed).all()
    assert two.best_average < one.best_average


def test_a_large_school_has_a_floor_too() -> None:
    suite = replace(fresh(0, FishEvaluationOptions(episodes=6)), fish=300)
    floor = unavoidable(suite, FishOptions())
    assert floor.doomed.shape == (6, 300)
    assert 0.95 < floor.best_average < 1.0
