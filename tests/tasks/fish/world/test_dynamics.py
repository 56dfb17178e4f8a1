"""The fish's world against its golden values and against the slow literal one."""

from __future__ import annotations

import numpy as np
import pytest

from longhaul.core.env import Floats
from longhaul.tasks.fish.options import (
    FishOptions,
    FishRewardOptions,
    NeighborOptions,
    PredatorOptions,
)
from longhaul.tasks.fish.world.world import BRAKE, FORWARD, KEEP
from tests.tasks.fish.literal import LiteralSchool, reset_literally
from tests.tasks.fish.worlds import PLAIN_START, TRAINING_START, placed, tank

PLAIN = FishOptions(fish=1, start=PLAIN_START)
FAR = (0.0, -9.0, 0.0, 0.0)


def test_the_predator_falls_and_bounces_as_recorded() -> None:
    golden = {
        1: (0.15, 0.005),
        10: (1.5, 0.275),
        25: (3.75, 1.625),
        50: (7.5, 6.375),
        100: (-4.2987, 8.5245),
        200: (-5.6572, 7.4991),
        500: (-3.2319, 9.4066),
    }
    world = placed(PLAIN, (FAR,), (0.0, 0.0, 1.5, 0.0))
    for step in range(1, 501):
        world.step(BRAKE)
        if step in golden:
            place = world.schools.world.predators[0, 0, :2]
            np.testing.assert_allclose(place, golden[step], atol=1e-4)


@pytest.mark.parametrize(
    ("action", "velocity"),
    [
        (0, (0.66, 0.88)),
        (1, (0.119615, 0.99282)),
        (2, (0.919615, 0.39282)),
        (3, (0.54, 0.72)),
        (4, (0.6, 0.8)),
    ],
)
def test_actions_change_the_velocity_as_recorded(
    action: int, velocity: tuple[float, float]
) -> None:
    world = placed(PLAIN, ((1.0, 2.0, 0.6, 0.8),), (0.0, -9.0, 0.0, 0.0))
    world.step(action)
    np.testing.assert_allclose(world.schools.world.fish[0, 0, 2:], velocity, atol=1e-5)


def test_the_wall_throws_a_fish_back_as_recorded() -> None:
    world = placed(PLAIN, ((9.95, 0.0, 1.9, 0.5),), (0.0, -9.0, 0.0, 0.0))
    world.step(FORWARD)
    fish = world.schools.world.fish[0, 0]
    np.testing.assert_allclose(fish, (9.999874, 0.050178, -0.970833, 0.49441), atol=1e-5)


def test_a_fish_at_rest_points_along_x() -> None:
    world = placed(PLAIN, ((1.0, 2.0, 0.0, 0.009),), (0.0, -9.0, 0.0, 0.0))
    world.step(FORWARD)
    np.testing.assert_allclose(world.schools.world.fish[0, 0, 2:], (0.1, 0.009), atol=1e-6)


def test_a_fish_without_an_action_stays_where_it_is() -> None:
    world = placed(PLAIN, ((1.0, 2.0, 0.6, 0.8),), (0.0, -9.0, 0.0, 0.0))
    world.step(-1)
    np.testing.assert_allclose(world.schools.world.fish[0, 0], (1.0, 2.0, 0.6, 0.8))


def test_exactly_the_fish_nearer_than_the_capture_distance_die() -> None:
    bodies = ((0.69, 5.0, 0.0, 0.0), (0.71, 5.0, 0.0, 0.0), (-0.1, 5.0, 0.0, 0.0))
    world = placed(FishOptions(fish=3), bodies, (0.0, 4.995, 0.0, 0.0))
    world.step(KEEP)
    assert world.schools.death_steps(0).tolist() == [1, -1, 1]
    assert world.slots.terminated.tolist() == [True, False, True]
    assert world.slots.active.tolist() == [False, True, False]


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.slow if seed > 1 else ()) for seed in range(6)]
)
def test_500_random_steps_kill_the_same_fish_at_the_same_time_as_the_literal_world(
    seed: int,
) -> None:
    options = FishOptions(
        fish=40,
        inputs="world",
        start=TRAINING_START,
        neighbors=NeighborOptions(inputs=True),
        reward=FishRewardOptions(
            "original", density_penalty=0.05, density_target=0.1, divergence=0.2
        ),
    )
    world = tank(options, seeds=(seed,))
    literal = reset_literally(seed, 40, training=True, boost=0.75)
    literal.density_penalty, literal.density_target = 0.05, 0.1
    literal.divergence_reward = 0.2
    world.copy_from(literal)
    actions = np.random.default_rng(seed + 100).integers(0, 5, (500, 40))
    for step, chosen in enumerate(actions.tolist()):
        world.step(chosen)
        literal.step(chosen)
        if step % 50 == 0:
            assert_same_view(world.obs, world.slots.reward, literal)
    assert world.schools.death_steps(0).tolist() == [f.death_step for f in literal.fish]
    assert any(fish.death_step > 0 for fish in literal.fish)


def assert_same_view(obs: Floats, reward: Floats, literal: LiteralSchool) -> None:
    expected = [
        literal.observation(fish, neighbor_features=True) if fish.alive else [0.0] * 18
        for fish in literal.fish
    ]
    np.testing.assert_allclose(obs, expected, atol=2e-4)
    np.testing.assert_allclose(reward, [literal.reward(f) for f in literal.fish], atol=2e-4)


def test_obstacles_throw_fish_and_predators_back() -> None:
    options = FishOptions(fish=1, obstacles=((0.0, 0.0, 2.0),))
    world = placed(options, ((-2.05, 0.0, 1.0, 0.5),), (0.0, 2.02, 0.0, -1.0))
    world.step(KEEP)
    fish, predator = world.schools.world.fish[0, 0], world.schools.world.predators[0, 0]
    assert np.hypot(fish[0], fish[1]) == pytest.approx(2.0, abs=1e-6)
    assert fish[2] == pytest.approx(-0.5, abs=0.03)
    np.testing.assert_allclose(predator, (0.0, 2.0, 0.0, 0.85 * 0.95), atol=1e-5)


def test_nobody_ever_is_inside_an_obstacle_or_outside_the_stage() -> None:
    discs = ((3.0, 3.0, 1.5), (-4.0, 0.0, 2.0), (0.0, -6.0, 1.0))
    options = FishOptions(fish=30, obstacles=discs, predator=PredatorOptions(count=2))
    world = tank(options, seeds=(1, 2, 3))
    generator = np.random.default_rng(0)
    for _ in range(100):
        bodies = np.concatenate(
            [world.schools.world.fish.reshape(-1, 4), world.schools.world.predators.reshape(-1, 4)]
        )
        assert (np.hypot(bodies[:, 0], bodies[:, 1]) <= 10.0001).all()
        for x, y, radius in discs:
            assert (np.hypot(bodies[:, 0] - x, bodies[:, 1] - y) >= radius - 1e-4).all()
        world.step(generator.integers(0, 5, 90).tolist())


def test_a_homing_predator_gains_on_a_fish_that_waits() -> None:
    options = FishOptions(fish=1, predator=PredatorOptions(homing=1.0))
    world = placed(options, ((5.0, 0.0, 0.0, 0.0),), (-5.0, 0.0, 0.0, 0.0))
    steps = 0
    while world.schools.death_steps(0)[0] < 0:
        world.step(KEEP)
        steps += 1
        speed = np.hypot(*world.schools.world.predators[0, 0, 2:])
        assert speed <= 1.8 + 1e-5
    assert 50 < steps < 80


def test_every_predator_eats() -> None:
    options = FishOptions(fish=2, predator=PredatorOptions(count=2))
    bodies = ((5.0, 0.0, 0.0, 0.0), (-5.0, 0.0, 0.0, 0.0))
    world = placed(options, bodies, (5.0, 0.0, 0.0, 0.0), (-5.0, 0.0, 0.0, 0.0))
    world.step(KEEP)
    assert world.schools.death_steps(0).tolist() == [1, 1]
    assert world.schools.over.all()
