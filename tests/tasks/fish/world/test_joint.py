"""W10: weights by heading and speed after the pre-roll."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.config import convert
from longhaul.core.errors import ConfigError
from longhaul.tasks.fish.options import FishStartOptions
from longhaul.tasks.fish.world.starts import JointBias, VelocityRange, redrawn_seed

BIAS = JointBias((VelocityRange((90, 150), (1.8, 3.0), 0.1), VelocityRange((330, 30), (0, 1), 2.0)))


def test_the_first_range_that_holds_counts_and_1_elsewhere() -> None:
    assert BIAS.weight((-0.5, 2.0)) == 0.1
    assert BIAS.weight((0.5, 0.0)) == 2.0
    assert BIAS.weight((-0.1, 0.5)) == 1.0


def test_starts_are_accepted_as_often_as_they_are_wanted() -> None:
    velocities = {0.1: (-0.5, 2.0), 2.0: (0.5, 0.0), 1.0: (-0.1, 0.5)}
    for weight, velocity in velocities.items():
        accepted = sum(BIAS.accepts(velocity, seed, 0) for seed in range(4000)) / 4000
        assert accepted == pytest.approx(weight / 2.0, abs=0.03)


def test_a_range_without_weight_is_never_accepted() -> None:
    never = JointBias((VelocityRange(weight=0.0),))
    assert not any(never.accepts((1.0, 0.0), seed, k) for seed in range(50) for k in range(5))


@pytest.mark.parametrize(
    "cell",
    [
        {"angles": [90.0]},
        {"angles": ["a", "b"]},
        {"angles": [-10, 30]},
        {"speed": [0, 1]},
        {"weight": -1.0},
        {"weight": float("inf")},
    ],
)
def test_a_wrong_range_is_refused_by_its_key(cell: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"options\.start\.joint_bias"):
        convert({"joint_bias": [cell]}, FishStartOptions, where="options.start")


@given(seed=st.integers(0, 2**31 - 1))
def test_the_first_start_is_the_seeds_own_and_later_ones_differ(seed: int) -> None:
    seeds = [redrawn_seed(seed, attempt) for attempt in range(20)]
    assert seeds[0] == seed
    assert len(set(seeds)) == 20
    assert all(0 <= other < 2**63 for other in seeds)


@given(x=st.floats(-3, 3), y=st.floats(-3, 3), low=st.floats(0, 360), high=st.floats(0, 360))
def test_a_range_and_its_complement_share_every_heading(
    x: float, y: float, low: float, high: float
) -> None:
    if low != high:
        holds = [VelocityRange(angles).holds((x, y)) for angles in ((low, high), (high, low))]
        assert sum(holds) == 1
