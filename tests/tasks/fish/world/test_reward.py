"""What fish are paid."""

from __future__ import annotations

import numpy as np
import pytest

from longhaul.core.settings import Settings
from longhaul.tasks.fish.options import (
    DENSITY_PENALTY,
    FishOptions,
    FishRewardOptions,
    NeighborOptions,
    PredatorOptions,
)
from longhaul.tasks.fish.world.world import KEEP
from tests.tasks.fish.worlds import placed, tank

ORIGINAL = FishRewardOptions("original", density_penalty=0.05, density_target=0.1, divergence=0.2)
FOUR = (
    (2.0, 0.0, 1.0, 0.0),
    (0.0, 5.0, 0.0, 1.0),
    (9.5, 0.0, 0.5, 0.5),
    (3.0, 1.0, -1.0, 1.0),
)


def test_the_four_fish_are_paid_as_recorded() -> None:
    # One step before the recorded positions; the predator's velocity makes up for gravity.
    before = tuple((x - 0.1 * vx, y - 0.1 * vy, vx, vy) for x, y, vx, vy in FOUR)
    world = placed(FishOptions(fish=4, reward=ORIGINAL), before, (0.0, 0.0, 0.0, -0.05))
    world.step(KEEP)
    assert world.slots.reward == pytest.approx([0.799667, 0.7, 0.6, 1.141279], abs=1e-5)


def test_dying_costs_fifty_in_the_original_and_one_in_the_plain_reward() -> None:
    doomed = ((0.1, 0.0, 0.0, 0.0), (0.0, -9.0, 0.0, 0.0))
    for reward, death in ((ORIGINAL, -50.0), (FishRewardOptions(), -1.0)):
        world = placed(FishOptions(fish=2, reward=reward), doomed, (0.0, 0.0, 0.0, 0.0))
        world.step(KEEP)
        assert world.slots.reward[0] == death == world.slots.terms["death"][0]
        world.step(KEEP)
        assert world.slots.reward[0] == 0.0
        assert not any(term[0] for term in world.slots.terms.values())


def test_the_plain_reward_pays_a_little_for_every_step() -> None:
    world = placed(FishOptions(fish=1), ((0.0, -9.0, 0.0, 0.0),), (0.0, 5.0, 0.0, 0.0))
    world.step(KEEP)
    assert world.slots.reward[0] == pytest.approx(0.01)
    assert tuple(world.slots.terms) == ("alive", "density", "divergence", "death")


@pytest.mark.parametrize("kind", ["plain", "original"])
def test_terms_add_up(kind: str) -> None:
    reward = FishRewardOptions("plain" if kind == "plain" else "original", divergence=0.2)
    options = FishOptions(
        fish=40, reward=reward, neighbors=NeighborOptions(), predator=PredatorOptions(count=2)
    )
    world = tank(
        options, seeds=(1, 2), settings=Settings([DENSITY_PENALTY], {DENSITY_PENALTY.name: 0.5})
    )
    generator = np.random.default_rng(0)
    seen = dict.fromkeys(world.slots.terms, 0.0)
    for _ in range(60):
        world.step(generator.integers(0, 5, 80).tolist())
        total = np.sum(list(world.slots.terms.values()), axis=0)
        np.testing.assert_allclose(total, world.slots.reward, rtol=1e-5, atol=1e-6)
        for name, term in world.slots.terms.items():
            seen[name] += float(np.abs(term).sum())
    assert all(share > 0 for share in seen.values())


def test_the_density_penalty_reaches_a_school_at_its_next_reset() -> None:
    options = FishOptions(fish=30)
    world = tank(options)
    world.schools.configure(Settings([DENSITY_PENALTY], {DENSITY_PENALTY.name: 1.0}))
    world.step(KEEP)
    assert not world.slots.terms["density"].any()
    world.schools.reset(np.arange(1), np.array([1]), [None])
    world.step(KEEP)
    assert world.slots.terms["density"].min() < 0
