"""Advantages and value targets as pure functions of a rollout's numbers.

The rules both functions keep: a terminated step has no future; a truncated one continues with the
value of its last observation, the end of the rollout with the value of what was seen there; nothing
flows across either. A step whose row was not active counts as if it were not in the sequence, so
the step before it continues with the step after it, undiscounted. A lost step, whose outcome nobody
knows, counts for nothing: the step before it continues with the value of what was seen there, and
nothing flows back from it.
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

Numbers = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Course:
    """What happened to N rows in T steps, apart from what the policy thought of it."""

    reward: Tensor  # [T, N]
    terminated: Tensor  # [T, N] bool
    truncated: Tensor  # [T, N] bool
    active: Tensor  # [T, N] bool
    cut_value: Tensor  # [T, N], of the last observation of truncated steps, elsewhere unused
    last_value: Tensor  # [N], of the observation after the last step
    lost: Tensor  # [T, N] bool


@dataclass(frozen=True, slots=True)
class Advantages:
    """How much better each action was than expected, and what to expect instead."""

    advantage: Tensor  # [T, N], zero for inactive and lost steps
    target: Tensor  # [T, N], the value itself for inactive and lost steps


@dataclass(frozen=True, slots=True)
class VTrace:
    """Off-policy corrected value targets and policy-gradient advantages."""

    target: Tensor  # [T, N], v_s of the paper; the value itself for inactive steps
    advantage: Tensor  # [T, N], r + discount * v_(s+1) - V, zero for inactive steps
    rho: Tensor  # [T, N], clipped importance weight of the policy gradient, zero where inactive


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds of the importance weights of V-trace."""

    rho_bar: float = 1.0
    c_bar: float = 1.0


def course_of(
    rollout: Rollout, *, reward: Tensor, truncation_value: Tensor, last_value: Tensor
) -> Course:
    """Return the rollout's course with these rewards [T, N] and bootstrap values [K] and [N]."""
    cut_value = torch.zeros_like(reward)
    cuts = rollout.truncations
    cut_value[cuts.step, cuts.row] = truncation_value.to(cut_value)
    return Course(
        reward,
        rollout.terminated,
        rollout.truncated,
        rollout.active,
        cut_value,
        last_value,
        rollout.lost,
    )


def gae(course: Course, value: Tensor, *, discount: float, decay: float) -> Advantages:
    """Return generalised advantages and their value targets for values [T, N]."""
    path = _Path.of(course, _numbers(value))
    error = path.errors(discount)
    advantage = _scan_back(error, path.onward(discount * decay))
    advantage *= path.counts
    return Advantages(
        advantage=_tensor(advantage, value), target=_tensor(path.value + advantage, value)
    )


def vtrace(
    course: Course,
    value: Tensor,
    log_ratio: Tensor,
    *,
    discount: float,
    decay: float,
    limits: Limits,
) -> VTrace:
    """Return V-trace targets (Espeholt et al. 2018) for values and log(pi / mu), both [T, N]."""
    # Values and ratios of present weights may be anything; the learner's guard judges the loss.
    with np.errstate(invalid="ignore", over="ignore"):
        return _vtrace(course, value, log_ratio, (discount, decay), limits)


def _vtrace(
    course: Course, value: Tensor, log_ratio: Tensor, rates: tuple[float, float], limits: Limits
) -> VTrace:
    discount, decay = rates
    path = _Path.of(course, _numbers(value))
    log_weight = path.masked(_numbers(log_ratio))
    # Clipped before the exponential, which an improbable action's ratio would overflow.
    rho = np.exp(np.minimum(log_weight, math.log(limits.rho_bar))) * path.counts
    trace = np.exp(np.minimum(log_weight, math.log(limits.c_bar))) * decay
    error = path.errors(discount)
    # v_s - V(x_s) obeys a linear recurrence, like an advantage.
    correction = _scan_back(rho * error, path.onward(discount * trace))
    later = np.append(correction[1:], np.zeros_like(correction[:1]), axis=0)
    advantage = path.counts * (error + discount * path.goes_on * later)
    return VTrace(
        target=_tensor(path.value + path.counts * correction, value),
        advantage=_tensor(advantage, value),
        rho=_tensor(rho, value),
    )


@dataclass(frozen=True, slots=True)
class _Path:
    """A course in NumPy, whose small row-wise steps cost a tenth of a tensor's."""

    reward: Numbers  # [T, N]
    value: Numbers  # [T, N]
    next_value: Numbers  # [T, N], what each step continues with
    goes_on: Numbers  # [T, N] float, 1 where the step after it belongs to the same episode
    active: Numbers  # [T, N] float
    counts: Numbers  # [T, N] float, 1 where the step was there and its outcome is known

    @staticmethod
    def of(course: Course, value: Numbers) -> _Path:
        terminated, truncated = _numbers(course.terminated), _numbers(course.truncated)
        active = _numbers(course.active)
        goes_on = ~(terminated | truncated)
        goes_on[-1] = False
        border = np.where(truncated, _numbers(course.cut_value), 0.0)
        border[-1] = np.where(truncated[-1], border[-1], _numbers(course.last_value))
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
        return _Path(
            _numbers(course.reward).astype(numeric, copy=False),
            value,
            next_value,
            goes_on.astype(numeric),
            active.astype(numeric),
            (active & ~_numbers(course.lost)).astype(numeric),
        )

    def errors(self, discount: float) -> Numbers:
        """Return the one-step errors, zero for steps that do not count."""
        return self.masked(self.reward + discount * self.next_value - self.value)

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
