from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from longhaul.learn.returns import Trajectory, gae, vtrace
from tests.learn.fakes import random_rollout


def make_trajectory(
    seed: int,
    steps: int,
    rows: int,
    *,
    ends: float,
    absent: float,
    losses: float = 0.0,
    longest: int = 0,
) -> Trajectory:
    draw = torch.Generator().manual_seed(seed)

    def chance(probability: float) -> Tensor:
        return torch.rand(steps, rows, generator=draw) < probability

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw)

    reward, cut_value, last_value = normal(steps, rows), normal(steps, rows), normal(rows)
    terminated, truncated, active = chance(ends), chance(ends), ~chance(absent)
    lost = chance(losses) & active
    duration = torch.randint(1, longest + 1, (steps, rows), generator=draw) if longest else None
    # A lost step has no outcome, so that it cannot be an end either.
    return Trajectory(
        reward=reward,
        terminated=terminated & ~lost,
        truncated=truncated & ~lost,
        active=active,
        cut_value=cut_value,
        last_value=last_value,
        lost=lost,
        duration=None if duration is None else duration.float(),
    )


def trajectory_from(
    reward: list[float],
    *,
    terminated: tuple[int, ...] = (),
    truncated: dict[int, float] | None = None,
    absent: tuple[int, ...] = (),
    lost: tuple[int, ...] = (),
    last: float = 0.0,
) -> Trajectory:
    """Return the trajectory of one row."""
    steps = len(reward)

    def flags(chosen: tuple[int, ...]) -> Tensor:
        return torch.tensor([[t in chosen] for t in range(steps)])

    cuts = truncated or {}
    return Trajectory(
        torch.tensor(reward).unsqueeze(1),
        flags(terminated),
        flags(tuple(cuts)),
        ~flags(absent),
        torch.tensor([[cuts.get(t, 0.0)] for t in range(steps)]),
        torch.tensor([last]),
        flags(lost),
    )


def slow_pieces(trajectory: Trajectory, row: int, value: Tensor) -> list[tuple[list[int], float]]:
    """Return the row's episodes as (steps that were really there, value after the last one)."""
    pieces: list[tuple[list[int], float]] = []
    steps: list[int] = []
    for t in range(trajectory.reward.shape[0]):
        if trajectory.lost[t, row]:
            pieces.append((steps, float(value[t, row])))
            steps = []
            continue
        if trajectory.active[t, row]:
            steps.append(t)
        if trajectory.terminated[t, row]:
            pieces.append((steps, 0.0))
            steps = []
        elif trajectory.truncated[t, row]:
            pieces.append((steps, float(trajectory.cut_value[t, row])))
            steps = []
    pieces.append((steps, float(trajectory.last_value[row])))
    return pieces


def slow_discounts(trajectory: Trajectory, steps: list[int], row: int, gamma: float) -> list[float]:
    """Return gamma to the power of the units of time each step took."""
    if trajectory.duration is None:
        return [gamma] * len(steps)
    return [gamma ** float(trajectory.duration[t, row]) for t in steps]


def slow_gae(trajectory: Trajectory, value: Tensor, gamma: float, decay: float) -> Tensor:
    """Sum the product of discount * decay times delta over each episode, as in the formula."""
    result = torch.zeros_like(value, dtype=torch.float64)
    for row in range(value.shape[1]):
        for steps, after in slow_pieces(trajectory, row, value):
            values = [float(value[t, row]) for t in steps] + [after]
            gammas = slow_discounts(trajectory, steps, row, gamma)
            delta = [
                float(trajectory.reward[t, row]) + gammas[i] * values[i + 1] - values[i]
                for i, t in enumerate(steps)
            ]
            for i, t in enumerate(steps):
                result[t, row] = sum(
                    math.prod(g * decay for g in gammas[i : i + k]) * delta[i + k]
                    for k in range(len(steps) - i)
                )
    return result


def slow_vtrace(
    trajectory: Trajectory,
    value: Tensor,
    log_ratio: Tensor,
    gamma: float,
    decay: float,
    bars: tuple[float, float],
) -> tuple[Tensor, Tensor]:
    """Return targets and advantages by equation 1 of Espeholt et al. 2018, term by term."""
    rho_bar, c_bar = bars
    target = value.double().clone()
    advantage = torch.zeros_like(target)
    for row in range(value.shape[1]):
        for steps, after in slow_pieces(trajectory, row, value):
            values = [float(value[t, row]) for t in steps] + [after]
            ratio = [math.exp(float(log_ratio[t, row])) for t in steps]
            reward = [float(trajectory.reward[t, row]) for t in steps]
            targets = list(values)
            gammas = slow_discounts(trajectory, steps, row, gamma)
            for i in range(len(steps)):
                for k in range(i, len(steps)):
                    product = math.prod(decay * min(c_bar, r) for r in ratio[i:k])
                    delta = reward[k] + gammas[k] * values[k + 1] - values[k]
                    discount = math.prod(gammas[i:k])
                    targets[i] += discount * product * min(rho_bar, ratio[k]) * delta
            for i, t in enumerate(steps):
                target[t, row] = targets[i]
                advantage[t, row] = reward[i] + gammas[i] * targets[i + 1] - values[i]
    return target, advantage


shapes = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**31),
        "steps": st.integers(1, 12),
        "rows": st.integers(1, 3),
        "ends": st.sampled_from([0.0, 0.2, 0.6]),
        "absent": st.sampled_from([0.0, 0.3, 1.0]),
        "losses": st.sampled_from([0.0, 0.3]),
        "longest": st.sampled_from([0, 1, 9]),
    }
)
rates = st.floats(0.0, 1.0)


@settings(max_examples=80)
@given(shape=shapes, gamma=rates, decay=rates)
def test_fast_and_slow_generalized_advantages_agree(
    shape: dict[str, float], gamma: float, decay: float
) -> None:
    trajectory = make_trajectory(**shape)  # type: ignore[arg-type]  # keys are the parameters' names
    value = torch.randn(trajectory.reward.shape, generator=torch.Generator().manual_seed(1))
    fast = gae(trajectory, value, gamma=gamma, gae_lambda=decay)
    slow = slow_gae(trajectory, value, gamma, decay)
    torch.testing.assert_close(fast.advantage.double(), slow, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(fast.target.double(), slow + value.double(), rtol=1e-4, atol=1e-4)


@settings(max_examples=80)
@given(shape=shapes, gamma=rates, decay=rates, bars=st.tuples(*[st.floats(0.2, 3.0)] * 2))
def test_fast_and_slow_vtrace_agree(
    shape: dict[str, float], gamma: float, decay: float, bars: tuple[float, float]
) -> None:
    trajectory = make_trajectory(**shape)  # type: ignore[arg-type]  # keys are the parameters' names
    draw = torch.Generator().manual_seed(1)
    value = torch.randn(trajectory.reward.shape, generator=draw)
    log_ratio = torch.randn(trajectory.reward.shape, generator=draw)
    fast = vtrace(
        trajectory,
        value,
        log_ratio,
        gamma=gamma,
        vtrace_lambda=decay,
        bars=bars,
    )
    target, advantage = slow_vtrace(trajectory, value, log_ratio, gamma, decay, bars)
    torch.testing.assert_close(fast.target.double(), target, rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(fast.advantage.double(), advantage, rtol=2e-3, atol=2e-3)


def test_gae_of_three_steps_is_as_computed_by_hand() -> None:
    trajectory = trajectory_from([1.0, 2.0, 3.0], last=4.0)
    result = gae(trajectory, torch.tensor([[0.5], [1.0], [2.0]]), gamma=0.5, gae_lambda=0.5)
    # delta: 3 + 2 - 2 = 3;  2 + 1 - 1 = 2;  1 + 0.5 - 0.5 = 1
    assert result.advantage.flatten().tolist() == [1 + 0.25 * 2.75, 2 + 0.25 * 3, 3.0]
    assert result.target.flatten().tolist() == [2.1875, 3.75, 5.0]


def test_gae_gives_the_golden_numbers() -> None:
    """Row 34 of the checklist; the value after a terminated step, 0.7, must not matter."""
    trajectory = trajectory_from([1.0, 0.0, 2.0], terminated=(2,), last=0.7)
    value = torch.tensor([[0.2], [0.3], [0.4]])
    found = gae(trajectory, value, gamma=0.9, gae_lambda=0.95)
    assert found.advantage.flatten().tolist() == pytest.approx([2.29094, 1.428, 1.6], abs=1e-5)
    assert found.target.flatten().tolist() == pytest.approx([2.49094, 1.728, 2.0], abs=1e-5)


def test_a_step_of_three_units_is_discounted_as_three_steps_without_reward() -> None:
    long = replace(trajectory_from([1.0, 2.0]), duration=torch.tensor([[3.0], [1.0]]))
    short = trajectory_from([1.0, 0.0, 0.0, 2.0])
    flat = torch.zeros(2, 1), torch.zeros(4, 1)
    target = [
        gae(one, value, gamma=0.5, gae_lambda=1.0).target[0, 0]
        for one, value in zip((long, short), flat, strict=True)
    ]
    assert target == [pytest.approx(1.0 + 0.5**3 * 2.0)] * 2


def test_a_terminated_step_has_no_future() -> None:
    trajectory = trajectory_from([1.0, 1.0], terminated=(0,), last=9.0)
    result = gae(trajectory, torch.zeros(2, 1), gamma=1.0, gae_lambda=1.0)
    assert result.target.flatten().tolist() == [1.0, 10.0]


def test_a_truncated_step_continues_with_the_value_of_its_last_observation() -> None:
    trajectory = trajectory_from([1.0, 1.0], truncated={0: 5.0}, last=9.0)
    result = gae(trajectory, torch.zeros(2, 1), gamma=1.0, gae_lambda=1.0)
    assert result.target.flatten().tolist() == [6.0, 10.0]


def test_a_truncation_in_the_last_step_hides_the_next_episode() -> None:
    trajectory = trajectory_from([1.0, 1.0], truncated={1: 5.0}, last=9.0)
    result = gae(trajectory, torch.zeros(2, 1), gamma=1.0, gae_lambda=1.0)
    assert result.target.flatten().tolist() == [7.0, 6.0]


def test_a_step_both_terminated_and_truncated_has_no_future() -> None:
    trajectory = trajectory_from([1.0, 1.0], terminated=(0,), truncated={0: 5.0})
    result = gae(trajectory, torch.zeros(2, 1), gamma=1.0, gae_lambda=1.0)
    assert result.target.flatten().tolist() == [1.0, 1.0]


def test_an_absent_step_is_as_if_it_were_not_there() -> None:
    value = torch.tensor([[0.3], [7.0], [0.4]])
    with_gap = trajectory_from([1.0, 50.0, 2.0], absent=(1,), last=3.0)
    without = trajectory_from([1.0, 2.0], last=3.0)
    gap = gae(with_gap, value, gamma=0.9, gae_lambda=0.8)
    plain = gae(without, value[[0, 2]], gamma=0.9, gae_lambda=0.8)
    torch.testing.assert_close(gap.advantage[[0, 2]], plain.advantage)
    assert gap.advantage[1].item() == 0.0


def test_a_lost_step_counts_for_nothing_and_lends_its_value_to_the_one_before() -> None:
    value = torch.tensor([[0.5], [4.0], [0.25]])
    trajectory = trajectory_from([1.0, 50.0, 2.0], lost=(1,), last=3.0)
    result = gae(trajectory, value, gamma=0.5, gae_lambda=0.5)
    # delta: 2 + 1.5 - 0.25 = 3.25;  lost;  1 + 2 - 0.5 = 2.5
    assert result.advantage.flatten().tolist() == [2.5, 0.0, 3.25]
    assert result.target.flatten().tolist() == [3.0, 4.0, 3.5]
    traced = vtrace(trajectory, value, torch.zeros(3, 1), gamma=0.5, vtrace_lambda=0.5)
    torch.testing.assert_close(traced.target, result.target)
    assert traced.rho.flatten().tolist() == [1.0, 0.0, 1.0]


def test_nothing_an_absent_row_reports_matters() -> None:
    trajectory = trajectory_from([1.0, math.nan, 2.0], absent=(1,), last=3.0)
    value = torch.tensor([[0.3], [math.nan], [0.4]])
    ratio = torch.tensor([[0.1], [math.inf], [-0.1]])
    traced = vtrace(trajectory, value, ratio, gamma=0.9, vtrace_lambda=1.0)
    assert torch.isfinite(gae(trajectory, value, gamma=0.9, gae_lambda=0.8).advantage).all()
    assert torch.isfinite(traced.advantage).all()
    assert torch.isfinite(traced.target[[0, 2]]).all()


def test_on_policy_vtrace_gives_the_discounted_return() -> None:
    trajectory = trajectory_from([1.0, 2.0, 4.0], last=8.0)
    value = torch.tensor([[0.1], [0.2], [0.3]])
    traced = vtrace(trajectory, value, torch.zeros(3, 1), gamma=0.5, vtrace_lambda=1.0)
    # 4 + 8/2 = 8;  2 + 8/2 = 6;  1 + 6/2 = 4
    torch.testing.assert_close(traced.target.flatten(), torch.tensor([4.0, 6.0, 8.0]))
    torch.testing.assert_close(traced.advantage, traced.target - value)


def test_a_ratio_of_zero_leaves_the_value_as_it_is() -> None:
    trajectory = trajectory_from([1.0, 2.0], last=3.0)
    value = torch.tensor([[0.5], [0.7]])
    ratio = torch.full((2, 1), -math.inf)
    traced = vtrace(trajectory, value, ratio, gamma=0.9, vtrace_lambda=1.0)
    torch.testing.assert_close(traced.target, value)
    assert traced.rho.flatten().tolist() == [0.0, 0.0]


def test_an_enormous_ratio_is_clipped_without_overflow() -> None:
    trajectory = trajectory_from([1.0, 2.0], last=3.0)
    ratio = torch.full((2, 1), 1000.0)
    traced = vtrace(
        trajectory, torch.zeros(2, 1), ratio, gamma=0.9, vtrace_lambda=1.0, bars=(2.0, 1.0)
    )
    torch.testing.assert_close(traced.rho.flatten(), torch.tensor([2.0, 2.0]))


def test_on_policy_vtrace_with_decay_gives_the_targets_of_gae() -> None:
    trajectory = make_trajectory(3, 10, 4, ends=0.2, absent=0.2)
    value = torch.randn(10, 4, generator=torch.Generator().manual_seed(2))
    traced = vtrace(trajectory, value, torch.zeros(10, 4), gamma=0.97, vtrace_lambda=0.8)
    torch.testing.assert_close(
        traced.target, gae(trajectory, value, gamma=0.97, gae_lambda=0.8).target
    )


def test_gae_equals_that_of_stable_baselines() -> None:
    buffers = pytest.importorskip("stable_baselines3.common.buffers")
    spaces = pytest.importorskip("gymnasium.spaces")
    steps, rows = 32, 5
    trajectory = make_trajectory(11, steps, rows, ends=0.1, absent=0.0)
    trajectory = replace(trajectory, truncated=torch.zeros_like(trajectory.truncated))
    value = torch.randn(steps, rows, generator=torch.Generator().manual_seed(5))
    buffer = buffers.RolloutBuffer(
        steps, spaces.Box(-1, 1, (1,)), spaces.Discrete(2),
        device="cpu", gae_lambda=0.9, gamma=0.95, n_envs=rows,
    )  # fmt: skip
    ended = trajectory.terminated.numpy()
    buffer.rewards[:], buffer.values[:] = trajectory.reward.numpy(), value.numpy()
    buffer.episode_starts[1:] = ended[:-1]
    buffer.compute_returns_and_advantage(trajectory.last_value, ended[-1].astype(np.float32))
    ours = gae(trajectory, value, gamma=0.95, gae_lambda=0.9)
    torch.testing.assert_close(ours.advantage, torch.from_numpy(buffer.advantages))
    torch.testing.assert_close(ours.target, torch.from_numpy(buffer.returns))


def test_truncation_values_land_on_their_steps_and_rows() -> None:
    rollout = random_rollout(0)
    cuts = rollout.truncations
    trajectory = Trajectory.of(
        rollout,
        rollout.reward,
        truncation_value=cuts.value,
        last_value=rollout.last.value,
    )
    assert len(cuts.row) > 0
    torch.testing.assert_close(trajectory.cut_value[rollout.truncated], cuts.value)
    assert trajectory.cut_value[~rollout.truncated].count_nonzero() == 0
