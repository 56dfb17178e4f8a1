from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.core.rollout import Rollout
from longhaul.learn.returns import Moments, RewardScale
from tests.learn.fakes import random_rollout


def slow_returns(rollouts: list[Rollout], gamma: float) -> list[float]:
    """Return every running discounted return, step by step and row by row."""
    result = []
    for row in range(rollouts[0].rows):
        running = 0.0
        for rollout in rollouts:
            for t in range(rollout.steps):
                if rollout.active[t, row]:
                    running = running * gamma + float(rollout.reward[t, row])
                    result.append(running)
                if rollout.terminated[t, row] or rollout.truncated[t, row]:
                    running = 0.0
    return result


def test_rewards_are_divided_by_the_deviation_of_the_discounted_return() -> None:
    rollouts = [random_rollout(seed) for seed in range(3)]
    scale = RewardScale(normalize=True, clip=0.0)
    scaled = [scale.scaled(rollout, gamma=0.9) for rollout in rollouts]
    deviation = np.std(slow_returns(rollouts, 0.9))
    torch.testing.assert_close(scaled[-1], rollouts[-1].reward / float(deviation))


def test_centered_rewards_have_the_mean_and_the_deviation_of_all_rewards_seen() -> None:
    rollouts = [random_rollout(seed) for seed in range(3)]
    scale = RewardScale(normalize=True, clip=0.0, center=True)
    scaled = [scale.scaled(rollout, gamma=0.9) for rollout in rollouts]
    seen = torch.cat([one.reward[one.active & ~one.lost] for one in rollouts]).double()
    expected = (rollouts[-1].reward.double() - seen.mean()) / seen.std(correction=0)
    torch.testing.assert_close(scaled[-1].double(), expected, rtol=1e-5, atol=1e-5)


def test_clipping_comes_after_scaling() -> None:
    rollout = random_rollout(0)
    rollout = replace(rollout, reward=rollout.reward * 1000)
    scale = RewardScale(normalize=True, clip=1.5)
    scaled = scale.scaled(rollout, gamma=0.9)
    assert scaled.abs().max() == pytest.approx(1.5)
    assert scaled.abs().min() < 0.5


def test_without_options_rewards_stay_as_they_are() -> None:
    rollout = random_rollout(0)
    assert RewardScale(normalize=False, clip=0.0).scaled(rollout, gamma=0.9) is rollout.reward


@pytest.mark.parametrize("center", [False, True])
def test_a_saved_scale_continues_exactly(center: bool) -> None:  # noqa: FBT001
    first = RewardScale(normalize=True, clip=0.0, center=center)
    first.scaled(random_rollout(0), gamma=0.9)
    second = RewardScale(normalize=True, clip=0.0, center=center)
    second.load_state_dict(first.state_dict())
    rollout = random_rollout(1)
    assert torch.equal(first.scaled(rollout, gamma=0.9), second.scaled(rollout, gamma=0.9))


def test_a_fleet_of_another_size_begins_its_returns_anew() -> None:
    scale = RewardScale(normalize=True, clip=0.0)
    scale.scaled(random_rollout(0, rows=4), gamma=0.9)
    assert scale.scaled(random_rollout(0, rows=2), gamma=0.9).shape == (16, 2)


@settings(max_examples=50)
@given(st.lists(st.lists(st.floats(-1e3, 1e3), max_size=6), min_size=1, max_size=5))
def test_moments_added_in_parts_are_those_of_the_whole(parts: list[list[float]]) -> None:
    moments = Moments()
    for part in parts:
        moments.add(np.array(part))
    everything = [number for part in parts for number in part]
    assert moments.count == len(everything)
    if len(everything) >= 2:
        assert moments.mean == pytest.approx(np.mean(everything), abs=1e-6)
        assert moments.deviation == pytest.approx(np.std(everything), abs=2e-4, rel=1e-6)
