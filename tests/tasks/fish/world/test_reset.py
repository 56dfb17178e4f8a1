"""Starts against golden values, and against draws made one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from longhaul.tasks.fish.options import FishOptions, FishStartOptions, PredatorOptions
from longhaul.tasks.fish.world.reset import CENTER, draw, hunt_draws, make_plan
from tests.tasks.fish.literal import reset_literally
from tests.tasks.fish.worlds import PLAIN_START, TRAINING_START, tank


def test_a_plain_start_has_the_recorded_places_and_velocities() -> None:
    world = tank(FishOptions(fish=3, start=PLAIN_START), seeds=(12345,)).schools.world
    places = [(0.35964, 2.50842), (-2.06328, 1.68281), (-3.51486, -6.66433)]
    velocities = [(0.19830, -0.64653), (-0.15223, -0.10815), (0.01046, 0.94882)]
    np.testing.assert_allclose(world.fish[0, :, :2], places, atol=1e-5)
    np.testing.assert_allclose(world.fish[0, :, 2:], velocities, atol=1e-5)
    np.testing.assert_array_equal(world.predators[0], [[0.0, 0.0, 1.5, 0.0]])


def test_a_training_start_has_the_recorded_velocity_and_predator() -> None:
    start = FishStartOptions(escape_boost_speed=0.8, drops_last_sector=True)
    world = tank(FishOptions(fish=3, start=start), seeds=(12345,)).schools.world
    np.testing.assert_allclose(world.fish[0, 0, 2:], (0.63511, 1.46855), atol=1e-5)
    np.testing.assert_allclose(
        world.predators[0, 0], (0.052897, 0.093976, 0.111103, 0.271905), atol=1e-5
    )


@pytest.mark.parametrize("seed", [0, 7, 2**31 - 2])
@pytest.mark.parametrize("training", [False, True])
def test_drawing_many_at_once_gives_what_drawing_one_by_one_gives(
    seed: int, *, training: bool
) -> None:
    start = TRAINING_START if training else PLAIN_START
    world = tank(FishOptions(fish=30, start=start), seeds=(seed,)).schools.world
    literal = reset_literally(seed, 30, training=training, boost=0.75)
    fish = [(*fish.position, *fish.velocity) for fish in literal.fish]
    np.testing.assert_allclose(world.fish[0], fish, atol=2e-6)
    predator = (*literal.predator.position, *literal.predator.velocity)
    np.testing.assert_allclose(world.predators[0, 0], predator, atol=1e-5)


class Middle(np.random.Generator):
    """Draws whose second fish starts in the very middle."""

    def random(self, size: Any = None, *rest: Any, **named: Any) -> Any:
        drawn = super().random(size, *rest, **named)
        if np.ndim(drawn) == 2:
            drawn[1, 1] = CENTER / 100
        return drawn


def test_a_fish_in_the_middle_draws_its_direction_before_its_turn() -> None:
    start = FishStartOptions()
    plan = make_plan(start)
    drawn = draw(Middle(np.random.PCG64(5)), start, fish=3, hunts=(2,), boost=0.8)
    by_hand = np.random.default_rng(5)
    by_hand.random((3, 4))
    normals = by_hand.standard_normal(5)
    np.testing.assert_array_equal(drawn.turns, normals[[0, 3, 4]] * 0.35)
    np.testing.assert_array_equal(drawn.strays[1], normals[1:3])
    assert not drawn.strays[[0, 2]].any()
    assert hunt_draws(plan, thrown=False) == 2 + 2 + 16 * 4
    assert hunt_draws(plan, thrown=True) == 2 + 16 * 4


def test_more_predators_change_nothing_about_the_fish_and_the_first() -> None:
    alone = tank(FishOptions(fish=5), seeds=(3,)).schools.world
    several = tank(FishOptions(fish=5, predator=PredatorOptions(count=3)), seeds=(3,)).schools.world
    np.testing.assert_array_equal(alone.fish, several.fish)
    np.testing.assert_array_equal(alone.predators[0, 0], several.predators[0, 0])
    assert len(np.unique(several.predators[0, :, 0])) == 3


def test_the_last_sector_is_drawn_unless_it_is_dropped() -> None:
    def headings(start: FishStartOptions) -> NDArray[np.float64]:
        world = tank(FishOptions(fish=1, start=start), seeds=tuple(range(400))).schools.world
        velocity = world.predators[:, 0, 2:]
        return np.degrees(np.arctan2(velocity[:, 1], velocity[:, 0])) % 360

    kept = FishStartOptions(pre_roll_steps=0)
    dropped = FishStartOptions(pre_roll_steps=0, drops_last_sector=True)
    assert (headings(kept) > 330).mean() == pytest.approx(0.95 / 6.38, abs=0.05)
    assert not (headings(dropped) > 330).any()


def test_the_pre_roll_turns_headings_towards_plus_y_as_recorded() -> None:
    def upwards(steps: int) -> float:
        start = FishStartOptions(pre_roll_steps=steps, drops_last_sector=True)
        world = tank(FishOptions(fish=1, start=start), seeds=tuple(range(1500))).schools.world
        velocity = world.predators[:, 0, 2:]
        angle = np.degrees(np.arctan2(velocity[:, 1], velocity[:, 0]))
        return float(((angle > 60) & (angle < 120)).mean())

    assert upwards(0) == pytest.approx(0.16, abs=0.03)
    assert upwards(16) == pytest.approx(0.48, abs=0.04)
