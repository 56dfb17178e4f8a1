"""What fish see, component by component."""

from __future__ import annotations

import math

import numpy as np
import pytest

from longhaul.tasks.fish.options import FishOptions, NeighborOptions, PredatorOptions
from longhaul.tasks.fish.world.observe import NEIGHBOR_INPUTS, OWN_INPUTS, PREDATOR_INPUTS
from tests.tasks.fish.literal import Body, Fish, LiteralSchool, vector
from tests.tasks.fish.worlds import placed, tank

VISION = 10 / 3
NEIGHBORS = NeighborOptions(inputs=True)


def test_the_original_inputs_are_the_documented_ones() -> None:
    bodies = ((3.0, -4.0, 1.0, -0.5), (9.0, 0.0, 0.0, 0.0))
    view = placed(FishOptions(fish=2, inputs="world"), bodies, (4.0, -2.0, 0.3, 0.8))
    distance = math.sqrt(5.0)
    expected = [0.3, -0.4, 0.5, -0.25, 0.5, 1, 1 / VISION, 2 / VISION, 0.15, 0.4, distance / VISION]
    np.testing.assert_allclose(view.obs[0], expected, atol=1e-6)
    np.testing.assert_allclose(view.obs[1], [0.9, 0, 0, 0, 0.1, *[0] * 6], atol=1e-6)


def test_the_original_neighbor_inputs_are_those_of_the_literal_world() -> None:
    generator = np.random.default_rng(4)
    bodies = generator.uniform(-2.5, 2.5, (20, 4)).astype(np.float32)
    options = FishOptions(fish=20, inputs="world", neighbors=NEIGHBORS)
    view = placed(options, tuple(map(tuple, bodies.tolist())), (0.0, 8.0, 0.0, 0.0))
    literal = LiteralSchool(
        [Fish(vector(x, y), vector(vx, vy)) for x, y, vx, vy in bodies.tolist()],
        Body(vector(0, 8), vector(0, 0)),
    )
    expected = [literal.observation(fish, neighbor_features=True) for fish in literal.fish]
    np.testing.assert_allclose(view.obs, expected, atol=1e-6)
    assert view.obs[:, 11].max() == 1.0


def test_a_neighbor_at_exactly_the_radius_counts_and_a_fish_alone_sees_zeros() -> None:
    options = FishOptions(fish=3, inputs="world", neighbors=NEIGHBORS)
    bodies = ((0.0, 0.0, 0.0, 0.0), (3.0, 0.0, 1.0, 0.0), (0.0, -8.0, 0.0, 0.0))
    view = placed(options, bodies, (0.0, 9.0, 0.0, 0.0))
    np.testing.assert_allclose(view.obs[0, 11:], [1 / 6, 1, 0, 1, 0.5, 0, 0.5], atol=1e-6)
    assert not view.obs[2, 11:].any()


def test_the_own_frame_tells_the_documented_numbers() -> None:
    # The fish swims along +y at speed 1; the predator is ahead and to the right, coming at it.
    view = placed(FishOptions(fish=1), ((2.0, 3.0, 0.0, 1.0),), (3.0, 5.0, -0.5, -1.0))
    relative = (-0.5, -2.0)
    time = -(1.0 * relative[0] + 2.0 * relative[1]) / (relative[0] ** 2 + relative[1] ** 2)
    miss = (1.0 + relative[0] * time, 2.0 + relative[1] * time)
    expected = [
        *(0.2, 0.3, 0.0, 1.0, 0.5, (10 - math.sqrt(13)) / 10, 0.3, -0.2),
        *(1.0, 2 / VISION, -1 / VISION, relative[1] / 2, -relative[0] / 2),
        *(math.sqrt(5) / VISION, time / 3, miss[1] / VISION, -miss[0] / VISION),
    ]
    np.testing.assert_allclose(view.obs[0], expected, atol=1e-6)


def test_an_unseen_predator_is_far_away_and_met_late() -> None:
    view = placed(FishOptions(fish=1), ((0.0, -8.0, 0.0, 1.0),), (0.0, 8.0, 0.0, -3.0))
    np.testing.assert_array_equal(view.obs[0, 8:], [0, 0, 0, 0, 0, 1, 1, 0, 0])


@pytest.mark.parametrize("angle", [0.4, 2.0, 4.5])
def test_turning_the_world_turns_only_what_is_told_of_the_world(angle: float) -> None:
    cosine, sine = math.cos(angle), math.sin(angle)

    def turned(body: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
        x, y, vx, vy = body
        return (
            x * cosine - y * sine,
            x * sine + y * cosine,
            vx * cosine - vy * sine,
            vx * sine + vy * cosine,
        )

    fish = ((1.0, 2.0, 0.7, -0.4), (2.0, 1.5, -1.0, 0.1), (0.0, 1.0, 0.2, 0.2))
    predators = ((2.0, 3.0, -1.0, 0.5), (-0.5, 1.0, 0.4, 0.0))
    options = FishOptions(fish=3, predator=PredatorOptions(count=2), neighbors=NEIGHBORS)
    before = placed(options, fish, *predators).obs
    after = placed(options, tuple(map(turned, fish)), *map(turned, predators)).obs
    np.testing.assert_allclose(before[:, 4:], after[:, 4:], atol=1e-5)
    assert not np.allclose(before[:, :4], after[:, :4], atol=1e-3)


def test_predators_are_told_from_the_nearest_on() -> None:
    options = FishOptions(fish=1, predator=PredatorOptions(count=3))
    three = [(3.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0), (0.0, 2.0, 0.0, 0.0)]
    view = placed(options, ((0.0, 0.0, 1.0, 0.0),), *three)
    distances = view.obs[0, OWN_INPUTS + 5 :: PREDATOR_INPUTS]
    np.testing.assert_allclose(distances, np.array([1.0, 2.0, 3.0]) / VISION, atol=1e-6)


def test_predators_at_one_place_are_both_told() -> None:
    options = FishOptions(fish=1, predator=PredatorOptions(count=2))
    view = placed(options, ((0.0, 0.0, 0.0, 0.0),), (1.0, 0.0, 2.0, 0.0), (1.0, 0.0, 0.0, 2.0))
    first, second = view.obs[0, OWN_INPUTS:].reshape(2, PREDATOR_INPUTS)
    np.testing.assert_allclose(first[3:5], (1.0, 0.0))
    np.testing.assert_allclose(second[3:5], (0.0, 1.0))


def test_the_nearest_obstacle_is_told_by_its_edge() -> None:
    options = FishOptions(fish=1, obstacles=((0.0, 4.0, 1.0), (6.0, 0.0, 3.5)))
    view = placed(options, ((0.0, 0.0, 0.0, 1.0),), (0.0, -9.0, 0.0, 0.0))
    np.testing.assert_allclose(view.obs[0, -3:], (2.5 / VISION, 0.0, -1.0), atol=1e-6)


def test_neighbors_come_last_whatever_else_is_told() -> None:
    plain = tank(FishOptions(fish=8), seeds=(3,)).obs
    social = tank(FishOptions(fish=8, neighbors=NEIGHBORS), seeds=(3,)).obs
    np.testing.assert_array_equal(social[:, :-NEIGHBOR_INPUTS], plain)
    assert social[:, -NEIGHBOR_INPUTS:].any()
