"""The original's training view."""

from __future__ import annotations

import numpy as np
import pytest

from longhaul.core.env import StepBuffers
from longhaul.core.settings import Settings
from longhaul.tasks.fish.options import SCHOOL_SIZE, FishOptions, FishRewardOptions
from longhaul.tasks.fish.world.broadcast import BroadcastFactory, BroadcastSchools
from tests.tasks.fish.worlds import tank

ORIGINAL = FishOptions(
    fish=5, inputs="world", reward=FishRewardOptions("original"), time_limit=12, limit_ends=True
)


def bound(options: FishOptions, seeds: tuple[int, ...]) -> tuple[BroadcastSchools, StepBuffers]:
    schools = BroadcastFactory(options)(len(seeds))
    slots = StepBuffers.allocate(schools.spec, len(seeds))
    schools.bind(slots)
    schools.reset(np.arange(len(seeds)), np.array(seeds), [None] * len(seeds))
    return schools, slots


def test_one_action_moves_all_and_the_reward_is_the_mean() -> None:
    schools, slots = bound(ORIGINAL, (3, 4))
    each = tank(ORIGINAL, seeds=(3, 4))
    for step in range(12):
        schools.step(0, 2, np.array([1, 2]))
        each.step([1] * 5 + [2] * 5)
        means = each.slots.reward.reshape(2, 5).mean(axis=1)
        np.testing.assert_allclose(slots.reward, means, rtol=1e-6)
        np.testing.assert_array_equal(slots.reward, slots.terms["school_mean"])
        assert schools.over.all() == (step == 11)
    assert slots.terminated.all()
    assert not slots.truncated.any()
    assert schools.ending(0).reason == "time_limit"
    assert schools.death_steps(0).tolist() == each.schools.death_steps(0).tolist()


def test_live_fish_are_looked_at_in_turn() -> None:
    schools, slots = bound(ORIGINAL, (3,))
    each = tank(ORIGINAL, seeds=(3,))
    seen = []
    for _ in range(7):
        row = int(schools.looked_at[0])
        np.testing.assert_array_equal(slots.obs["obs"][0], each.obs[row])
        seen.append(row)
        schools.step(0, 1, np.array([4]))
        each.step(4)
    assert each.slots.active.all()
    assert seen == [0, 1, 2, 3, 4, 0, 1]


def test_random_looking_depends_on_the_episodes_seed() -> None:
    options = FishOptions(fish=5, sampling="random")

    def looked_at(seed: int) -> list[int]:
        schools, _ = bound(options, (seed,))
        seen = []
        for _ in range(40):
            seen.append(int(schools.looked_at[0]))
            schools.step(0, 1, np.array([4]))
        return seen

    assert looked_at(1) == looked_at(1)
    assert looked_at(1) != looked_at(2)
    assert set(looked_at(1)) == set(range(5))


def test_the_mean_is_over_the_fish_the_school_has() -> None:
    schools, slots = bound(FishOptions(fish=8), (1,))
    schools.configure(Settings([SCHOOL_SIZE], {SCHOOL_SIZE.name: 3}))
    schools.reset(np.arange(1), np.array([1]), [None])
    schools.step(0, 1, np.array([3]))
    assert slots.reward[0] == pytest.approx(0.01)
