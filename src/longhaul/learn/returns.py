"""Advantages and value targets: generalized advantage estimation and V-trace.

Both are pure functions of a rollout's numbers and use the same V(s_{t+1}):

    terminated   V(s_{t+1}) = 0
    truncated    V of the episode's last observation; the sum ends here
    last step    V of the observation after the rollout; the sum ends here
    duration     a step of n units of time discounts what follows by gamma^n: the discount of a
                 semi-Markov decision process (Sutton, Precup and Singh 1999)
    inactive     the step is skipped: the one before continues with the one after, undiscounted
    lost         the outcome is unknown: the step is not learned from, and the step before it
                 bootstraps from the value recorded there
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longhaul.core.rollout import Rollout
from longhaul.core.spaces import DURATION
from longhaul.core.state import State

Numbers = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Trajectory:
    """What happened to N rows in T steps, and the bootstrap values."""

    reward: Tensor  # [T, N]
    terminated: Tensor  # [T, N] bool
    truncated: Tensor  # [T, N] bool
    active: Tensor  # [T, N] bool
    cut_value: Tensor  # [T, N], of the last observation of truncated steps, elsewhere unused
    last_value: Tensor  # [N], of the observation after the last step
    lost: Tensor  # [T, N] bool
    duration: Tensor | None = None  # [T, N], units of time each step took; None: one each

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
            rollout.measures.get(DURATION),
        )


@dataclass(frozen=True, slots=True)
class Advantages:
    """Advantages and value targets of a rollout."""

    advantage: Tensor  # [T, N], zero for inactive and lost steps
    target: Tensor  # [T, N], the value itself for inactive and lost steps


@dataclass(frozen=True, slots=True)
class VTraceReturns:
    """Off-policy corrected value targets and policy-gradient advantages."""

    target: Tensor  # [T, N], v_s of the paper; the value itself for inactive steps
    advantage: Tensor  # [T, N], r + gamma * v_{s+1} - V(x_s), zero for inactive steps
    rho: Tensor  # [T, N], clipped importance weight of the policy gradient, zero where inactive


def gae(trajectory: Trajectory, value: Tensor, *, gamma: float, gae_lambda: float) -> Advantages:
    """Return generalized advantages (Schulman et al. 2016) and value targets for values [T, N]."""
    steps = _Steps.of(trajectory, _numbers(value))
    discount = discounts(trajectory, gamma)
    # delta_t = r_t + gamma V(s_{t+1}) - V(s_t)
    delta = steps.errors(discount)
    # A_t = sum_l (gamma lambda)^l delta_{t+l} = delta_t + gamma lambda A_{t+1}
    advantage = _scan_back(delta, steps.onward(discount * gae_lambda))
    # V_t^targ = A_t + V(s_t), the lambda-return
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
    vtrace_lambda: float = 1.0,
    bars: tuple[float, float] = (1.0, 1.0),
) -> VTraceReturns:
    """Return V-trace targets (Espeholt et al. 2018) for values and log(pi / mu), both [T, N].

    `bars` are rho_bar and c_bar, the upper bounds of the importance weights. The paper's
    v_s = V(x_s) + sum_{t>=s} gamma^{t-s} (prod_{i=s}^{t-1} c_i) rho_t delta_t is computed backward.
    """
    rho_bar, c_bar = bars
    # Values and ratios may be NaN or infinite here; the guard checks the gradient.
    with np.errstate(invalid="ignore", over="ignore"):
        steps = _Steps.of(trajectory, _numbers(value))
        log_weight = steps.masked(_numbers(log_ratio))
        # rho_t = min(rho_bar, pi(a_t|x_t) / mu(a_t|x_t)), c_t = lambda min(c_bar, pi / mu).
        # Clipped before the exponential, which would overflow for an improbable action.
        rho = np.exp(np.minimum(log_weight, math.log(rho_bar))) * steps.counts
        c = np.exp(np.minimum(log_weight, math.log(c_bar))) * vtrace_lambda
        discount = discounts(trajectory, gamma)
        # delta_t = r_t + gamma V(x_{t+1}) - V(x_t)
        delta = steps.errors(discount)
        # v_s - V(x_s) = rho_s delta_s + gamma c_s (v_{s+1} - V(x_{s+1}))
        correction = _scan_back(rho * delta, steps.onward(discount * c))
        later = np.append(correction[1:], np.zeros_like(correction[:1]), axis=0)
        # A_s = r_s + gamma v_{s+1} - V(x_s) = delta_s + gamma (v_{s+1} - V(x_{s+1}))
        advantage = steps.counts * (delta + discount * steps.goes_on * later)
        return VTraceReturns(
            target=_tensor(steps.value + steps.counts * correction, value),
            advantage=_tensor(advantage, value),
            rho=_tensor(rho, value),
        )


def discounts(trajectory: Trajectory, gamma: float) -> float | Numbers:
    """Return what each step discounts the value of what follows by: gamma, or gamma^duration."""
    if trajectory.duration is None:
        return gamma
    duration = _numbers(trajectory.duration)
    found: Numbers = np.power(np.asarray(gamma, duration.dtype), duration)
    return found


@dataclass(frozen=True, slots=True)
class _Steps:
    """A trajectory in NumPy, whose small row-wise steps cost a tenth of a tensor's."""

    reward: Numbers  # [T, N]
    value: Numbers  # [T, N]
    next_value: Numbers  # [T, N], V(s_{t+1})
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
            # An inactive step takes over the value of the next active one.
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

    def errors(self, discount: float | Numbers) -> Numbers:
        """Return the temporal-difference errors, zero for steps that do not count."""
        return self.masked(self.reward + discount * self.next_value - self.value)

    def onward(self, factor: float | Numbers) -> Numbers:
        """Return the factor of x[t + 1]: 1 for inactive steps, 0 for lost ones and at an end."""
        share: Numbers = np.where(self.active > 0, factor * self.counts, 1.0)
        passed_on: Numbers = self.goes_on * share.astype(self.value.dtype)
        return passed_on

    def masked(self, numbers: Numbers) -> Numbers:
        """Return the numbers, zero for steps that do not count."""
        # Not a product: an inactive row may report NaN.
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
        """Add a batch of numbers (Chan et al. 1979)."""
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
        """The standard deviation; 1 with fewer than two numbers."""
        if self.count < 2:
            return 1.0
        return float(np.sqrt(self.squares / self.count + 1e-8))


class RewardScale:
    """Divides rewards by the running deviation of the discounted return, then clips them.

    With `center`, rewards are first made less by their running mean, and divided by their own
    running deviation.
    """

    def __init__(self, *, normalize: bool, clip: float, center: bool = False) -> None:
        self._normalize = normalize
        self._center = center
        self._rewards = Moments()
        self._clip = clip
        self._moments = Moments()
        self._running: NDArray[np.float64] = np.zeros(0)  # [N], the return so far of each row

    def scaled(self, rollout: Rollout, *, gamma: float) -> Tensor:
        """Return the rollout's rewards [T, N] as the learner should see them."""
        if self._center:
            known = (rollout.active & ~rollout.lost).cpu().numpy()
            self._rewards.add(rollout.reward.cpu().numpy()[known].astype(np.float64))
        elif self._normalize:
            self._measure(rollout, gamma)
        return self.applied(rollout.reward)

    def applied(self, reward: Tensor) -> Tensor:
        """Return rewards divided by the present deviation and clipped; nothing is measured."""
        if self._center:
            reward = (reward - self._rewards.mean) / self._rewards.deviation
        elif self._normalize:
            reward = reward / self._moments.deviation
        if self._clip > 0:
            reward = reward.clamp(-self._clip, self._clip)
        return reward

    def _measure(self, rollout: Rollout, gamma: float) -> None:
        lost = rollout.lost.cpu().numpy()
        active = rollout.active.cpu().numpy() & ~lost
        reward = np.where(active, rollout.reward.cpu().numpy(), 0.0).astype(np.float64)
        ended = (rollout.terminated | rollout.truncated).cpu().numpy() | lost
        if len(self._running) != rollout.rows:  # another number of rows: restart
            self._running = np.zeros(rollout.rows)
        returns = np.empty_like(reward)
        running = self._running
        # An inactive step is skipped, so it does not discount the return before it.
        duration = rollout.measures.get(DURATION)
        faded = gamma if duration is None else gamma ** _numbers(duration).astype(np.float64)
        fade = np.where(active, faded, 1.0)
        for t in range(rollout.steps):
            running = running * fade[t] + reward[t]
            returns[t] = running
            running = np.where(ended[t], 0.0, running)
        self._running = running
        self._moments.add(returns[active])

    def state_dict(self) -> State:
        """Return the measured moments and each row's unfinished return."""
        kept = {**asdict(self._moments), "running": torch.from_numpy(self._running.copy())}
        return {**kept, "rewards": asdict(self._rewards)} if self._center else kept

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state."""
        self._moments = Moments(state["count"], state["mean"], state["squares"])
        self._running = torch.as_tensor(state["running"]).numpy().copy()
        if self._center:
            self._rewards = Moments(**state["rewards"])
