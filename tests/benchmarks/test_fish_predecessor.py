"""The predecessor's environment, which is measured beside ours, plays the same episodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.fish_predecessor import PredecessorEnv
from gymnasium.utils.env_checker import check_env

from longhaul.core.env import StepBuffers
from longhaul.tasks.fish.options import (
    FishOptions,
    FishRewardOptions,
    FishStartOptions,
    NeighborOptions,
)
from longhaul.tasks.fish.world.broadcast import BroadcastFactory

ORIGINAL = FishOptions(
    fish=12,
    inputs="world",
    acting="broadcast",
    limit_ends=True,
    time_limit=120,
    start=FishStartOptions(drops_last_sector=True),
    neighbors=NeighborOptions(inputs=True),
    reward=FishRewardOptions(kind="original", density_penalty=0.05, divergence=0.1),
)
BASE = replace(
    ORIGINAL,
    neighbors=NeighborOptions(),
    reward=FishRewardOptions(kind="original"),
    time_limit=60,
)


@pytest.mark.parametrize("options", [ORIGINAL, BASE], ids=["neighbors", "base"])
def test_it_plays_the_same_episode_as_the_compiled_world(options: FishOptions) -> None:
    ours = BroadcastFactory(options)(1)
    slots = StepBuffers.allocate(ours.spec, 1)
    ours.bind(slots)
    ours.reset(np.array([0]), np.array([5]), [None])
    theirs = PredecessorEnv(options)
    seen, _ = theirs.reset(seed=5)
    generator = np.random.default_rng(0)
    for _ in range(options.time_limit):
        np.testing.assert_allclose(seen, slots.obs["obs"][0], atol=2e-4)
        action = int(generator.integers(5))
        ours.step(0, 1, np.array([action]))
        seen, reward, over, _, _ = theirs.step(action)
        assert reward == pytest.approx(float(slots.reward[0]), abs=2e-4)
        assert over == bool(ours.over[0])
        if over:
            break
    assert over


def test_gymnasiums_checker_accepts_it() -> None:
    check_env(PredecessorEnv(BASE), skip_render_check=True)
