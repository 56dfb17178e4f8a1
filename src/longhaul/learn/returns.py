"""Advantages and value targets: generalized advantage estimation and V-trace.

Both are pure functions of a rollout's numbers and keep the same rules. A terminated step has no
future: V(x_{t+1}) = 0. A truncated step continues with the value of its last observation, the last
step of a rollout with the value of the observation after it; nothing flows across either. A step
whose row was not active counts as if it were not in the sequence: the step before it continues with
the step after it, undiscounted. A lost step, whose outcome is unknown, counts for nothing: the step
before it continues with the value of what was seen there, and nothing flows back from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longhaul.core.rollout import Rollout
from longhaul.core.state import State

Numbers = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Trajectory:
    """What happened to N rows in T steps, and the values episodes are bootstrapped with."""

    reward: Tensor  # [T, N]
    terminated: Tensor  # [T, N] bool
    truncated: Tensor  # [T, N] bool
    active: Tensor  # [T, N] bool
    cut_value: Tensor  # [T, N], of the last observation of truncated steps, elsewhere unused
    last_value: Tensor  # [N], of the observation after the last step
    lost: Tensor  # [T, N] bool

    @staticmethod
    def of(
        rollout: Rollout,
        reward: Tensor,
        *,
        truncation_value: Tensor | None = None,
        last_value: Tensor | None = None,
    ) -> Trajectory:
        """Return a rollout with rewards [T, N]; without bootstrap values, with those recorded."""
        cuts = rollout.truncations
        cut_value = torch.zeros_like(reward)
        cut_value[cuts.step, cuts.row] = (
            cuts.value if truncation_value is None else truncation_value
        ).to(cut_value)
        return Trajectory(
            reward,
            rollout.terminated,
            rollout.truncated,
            rollout.active,
            cut_value,
            rollout.last.value if last_value is None else last_value,
            rollout.lost,
        )


@dataclass(frozen=True, slots=True)
class Advantages:
    """How much better each action was than expected, and what to expect instead."""

    advantage: Tensor  # [T, N], zero for inactive and lost steps
    target: Tensor  # [T, N], the value itself for inactive and lost steps


@dataclass(frozen=True, slots=True)
class VTraceReturns:
    """Off-policy corrected value targets and policy-gradient advantages."""

    target: Tensor  # [T, N], v_s of the paper; the value itself for inactive steps
    advantage: Tensor  # [T, N], r + gamma * v_{s+1} - V(x_s), zero for inactive steps
    rho: Tensor  # [T, N], clipped importance weight of the policy gradient, zero where inactive


def gae(trajectory: Trajectory, value: Tensor, *, gamma: float, decay: float) -> Advantages:
    """Return generalized advantages and their value targets for values [T, N]."""
    steps = _Steps.of(trajectory, _numbers(value))
    # delta_t = r_t + gamma V(x_{t+1}) - V(x_t)
    delta = steps.errors(gamma)
    # A_t = delta_t + gamma lambda A_{t+1}; the target is A_t + V(x_t).
    advantage = _scan_back(delta, steps.onward(gamma * decay))
    advantage *= steps.counts
    return Advantages(
        advantage=_tensor(advantage, value), target=_tensor(steps.value + advantage, value)
    )


def vtrace(
    trajectory: Trajectory,
    value: Tensor,
    log_ratio: Tensor,
    *,
    gamma: float,
    decay: float = 1.0,
    bars: tuple[float, float] = (1.0, 1.0),
) -> VTraceReturns:
    """Return V-trace targets (Espeholt et al. 2018) for values and log(pi / mu), both [T, N].

    `bars` are rho_bar and c_bar, the upper bounds of the importance weights.
    """
    rho_bar, c_bar = bars
    # Values and ratios of present weights may be anything; the guard looks at the gradient.
    with np.errstate(invalid="ignore", over="ignore"):
        steps = _Steps.of(trajectory, _numbers(value))
        log_weight = steps.masked(_numbers(log_ratio))
        # rho_t = min(rho_bar, pi / mu) and c_t = lambda min(c_bar, pi / mu). Clipped before the
        # exponential, which an improbable action's ratio would overflow.
        rho = np.exp(np.minimum(log_weight, math.log(rho_bar))) * steps.counts
        c = np.exp(np.minimum(log_weight, math.log(c_bar))) * decay
        delta = steps.errors(gamma)
        # v_s - V(x_s) = rho_s delta_s + gamma c_s (v_{s+1} - V(x_{s+1}))
        correction = _scan_back(rho * delta, steps.onward(gamma * c))
        later = np.append(correction[1:], np.zeros_like(correction[:1]), axis=0)
        # r_s + gamma v_{s+1} - V(x_s) = delta_s + gamma (v_{s+1} - V(x_{s+1}))
        advantage = steps.counts * (delta + gamma * steps.goes_on * later)
        return VTraceReturns(
            target=_tensor(steps.value + steps.counts * correction, value),
            advantage=_tensor(advantage, value),
            rho=_tensor(rho, value),
        )


@dataclass(frozen=True, slots=True)
class _Steps:
    """A trajectory in NumPy, whose small row-wise steps cost a tenth of a tensor's."""

    reward: Numbers  # [T, N]
    value: Numbers  # [T, N]
    next_value: Numbers  # [T, N], what each step continues with
    goes_on: Numbers  # [T, N] float, 1 where the step after it belongs to the same episode
    active: Numbers  # [T, N] float
    counts: Numbers  # [T, N] float, 1 where the step was there and its outcome is known

    @staticmethod
    def of(trajectory: Trajectory, value: Numbers) -> _Steps:
        terminated, truncated = _numbers(trajectory.terminated), _numbers(trajectory.truncated)
        active = _numbers(trajectory.active)
        goes_on = ~(terminated | truncated)
        goes_on[-1] = False
        border = np.where(truncated, _numbers(trajectory.cut_value), 0.0)
        border[-1] = np.where(truncated[-1], border[-1], _numbers(trajectory.last_value))
        border[terminated | goes_on] = 0.0
        border = border.astype(value.dtype, copy=False)
        seen = value
        if not active.all():
            # An inactive step's observation has no value of its own: it shows the one behind it.
            seen = _scan_back(
                np.where(active, value, border), (~active & goes_on).astype(value.dtype)
            )
        next_value = border.copy()
        next_value[:-1] += np.where(goes_on[:-1], seen[1:], 0.0)
        numeric = value.dtype
        return _Steps(
            _numbers(trajectory.reward).astype(numeric, copy=False),
            value,
            next_value,
            goes_on.astype(numeric),
            active.astype(numeric),
            (active & ~_numbers(trajectory.lost)).astype(numeric),
        )

    def errors(self, gamma: float) -> Numbers:
        """Return the temporal-difference errors, zero for steps that do not count."""
        return self.masked(self.reward + gamma * self.next_value - self.value)

    def onward(self, factor: float | Numbers) -> Numbers:
        """Return what share of the later steps each step receives.

        Inactive ones pass all of it on, lost ones nothing: what follows is another episode.
        """
        share: Numbers = np.where(self.active > 0, factor * self.counts, 1.0)
        passed_on: Numbers = self.goes_on * share.astype(self.value.dtype)
        return passed_on

    def masked(self, numbers: Numbers) -> Numbers:
        """Return the numbers, zero for steps that do not count."""
        # Not a product: whatever an inactive row reports, even a NaN, must not matter.
        return np.where(self.counts > 0, numbers, np.zeros_like(numbers))


def _scan_back(term: Numbers, factor: Numbers) -> Numbers:
    """Return x with x[t] = term[t] + factor[t] * x[t + 1] and x[T] = 0, row by row."""
    result = term.copy()
    later = result[-1]
    for now, share in zip(result[-2::-1], factor[-2::-1], strict=True):
        now += share * later
        later = now
    return result


def _numbers(tensor: Tensor) -> Numbers:
    return tensor.detach().cpu().numpy()


def _tensor(numbers: Numbers, like: Tensor) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(numbers)).to(like)


@dataclass(slots=True)
class Moments:
    """Count, mean and sum of squared deviations of everything seen so far."""

    count: float = 0.0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, numbers: NDArray[np.float64]) -> None:
        """Take more numbers into account, all at once (Chan et al. 1979)."""
        if numbers.size == 0:
            return
        mean = float(numbers.mean())
        squares = float(np.square(numbers - mean).sum())
        total = self.count + numbers.size
        distance = mean - self.mean
        self.squares += squares + distance**2 * self.count * numbers.size / total
        self.mean += distance * numbers.size / total
        self.count = total

    @property
    def deviation(self) -> float:
        """The standard deviation; 1 before there is anything to measure."""
        if self.count < 2:
            return 1.0
        return float(np.sqrt(self.squares / self.count + 1e-8))


class RewardScale:
    """Divides rewards by the running deviation of the discounted return, then clips them."""

    def __init__(self, *, normalize: bool, clip: float) -> None:
        self._normalize = normalize
        self._clip = clip
        self._moments = Moments()
        self._running: NDArray[np.float64] = np.zeros(0)  # [N], the return so far of each row

    def scaled(self, rollout: Rollout, *, gamma: float) -> Tensor:
        """Return the rollout's rewards [T, N] as the learner should see them."""
        if self._normalize:
            self._measure(rollout, gamma)
        return self.applied(rollout.reward)

    def applied(self, reward: Tensor) -> Tensor:
        """Return rewards of any time on the present scale, which stays as it is."""
        if self._normalize:
            reward = reward / self._moments.deviation
        if self._clip > 0:
            reward = reward.clamp(-self._clip, self._clip)
        return reward

    def _measure(self, rollout: Rollout, gamma: float) -> None:
        lost = rollout.lost.cpu().numpy()
        active = rollout.active.cpu().numpy() & ~lost
        reward = np.where(active, rollout.reward.cpu().numpy(), 0.0).astype(np.float64)
        ended = (rollout.terminated | rollout.truncated).cpu().numpy() | lost
        if len(self._running) != rollout.rows:  # a fleet of another size begins anew
            self._running = np.zeros(rollout.rows)
        returns = np.empty_like(reward)
        running = self._running
        # An inactive step is as if absent, so it does not discount what came before it.
        fade = np.where(active, gamma, 1.0)
        for t in range(rollout.steps):
            running = running * fade[t] + reward[t]
            returns[t] = running
            running = np.where(ended[t], 0.0, running)
        self._running = running
        self._moments.add(returns[active])

    def state_dict(self) -> State:
        """Return the measured moments and each row's unfinished return."""
        return {
            "count": self._moments.count,
            "mean": self._moments.mean,
            "squares": self._moments.squares,
            "running": torch.from_numpy(self._running.copy()),
        }

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state."""
        self._moments = Moments(state["count"], state["mean"], state["squares"])
        self._running = torch.as_tensor(state["running"]).numpy().copy()
