"""The parts of a learner's loss and the numbers that describe a step.

All take flat tensors of the n steps that are learned from. Each part comes with its gradient,
derived by hand and free of autograd, through which a dozen operations on 512 numbers would cost
more than a tenth of what a small network does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

MOST_ERRORS = 20_000
"""Steps that quantiles of errors are taken over, evenly spread."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the loss, which is the mean of `losses`, and its gradient times `scale`."""

    losses: Tensor  # [n], not scaled
    gradient: Tensor  # [n], with respect to what the policy put out


@dataclass(frozen=True, slots=True)
class Surrogate:
    """PPO's objective and how far the policy has moved."""

    part: Part  # with respect to the log-probability
    divergence: Tensor  # [n], whose mean estimates the divergence from the old policy
    is_outside: Tensor  # [n] bool, the ratio is outside the clip range


def clipped_surrogate(
    log_prob: Tensor, old_log_prob: Tensor, advantage: Tensor, *, clip_range: float, scale: float
) -> Surrogate:
    """Return -min(ratio * advantage, clipped ratio * advantage)."""
    log_ratio = log_prob.detach() - old_log_prob
    ratio = log_ratio.exp()
    clipped_ratio = ratio.clamp(1.0 - clip_range, 1.0 + clip_range)
    free = ratio * advantage
    clipped = clipped_ratio * advantage
    # Where the clipped product is the smaller one, the ratio is outside and its gradient is zero.
    # Asked this way round, a NaN stays in the gradient, whose length the guard looks at.
    gradient = torch.where(clipped < free, 0.0, free).mul_(-scale / free.numel())
    losses = torch.minimum(free, clipped, out=free).neg_()
    is_outside = torch.ne(ratio, clipped_ratio)
    return Surrogate(Part(losses, gradient), divergence_of(ratio, log_ratio), is_outside)


def divergence_of(ratio: Tensor, log_ratio: Tensor) -> Tensor:
    """Return (r - 1) - log r, whose mean is a low-variance estimate of how far a policy moved."""
    return (ratio - log_ratio).sub_(1.0)


def vtrace_policy_gradient(
    log_prob: Tensor, rho: Tensor, advantage: Tensor, *, scale: float
) -> Part:
    """Return -rho * advantage * log_prob; both weights are constants."""
    weight = (rho * advantage).neg_()
    return Part(weight * log_prob.detach(), weight * (scale / weight.numel()))


def value_error(
    value: Tensor, target: Tensor, *, scale: float, weight: Tensor | None = None
) -> Part:
    """Return the squared error of values, each times its weight if there are any."""
    difference = value.detach() - target
    squares = difference.square()
    if weight is not None:
        squares, difference = squares * weight, difference * weight
    return Part(squares, difference.mul_(2.0 * scale / value.numel()))


def clipped_value_error(
    value: Tensor, target: Tensor, old_value: Tensor, *, value_clip: float, scale: float
) -> Part:
    """Return the squared error of values kept within `value_clip` of the recorded ones."""
    move = value.detach() - old_value
    is_beyond = move.abs() > value_clip
    difference = old_value + move.clamp(-value_clip, value_clip) - target
    gradient = torch.where(is_beyond, 0.0, difference).mul_(2.0 * scale / value.numel())
    return Part(difference.square(), gradient)


def entropy_bonus(entropy: Tensor, *, scale: float) -> Part:
    """Return minus the entropy, so that a smaller loss is a more random policy."""
    entropy = entropy.detach()
    return Part(-entropy, torch.full_like(entropy, -scale / entropy.numel()))


def explained_variance(value: Tensor, target: Tensor) -> float | None:
    """Return the share of the targets' variance the values explain; None for constant targets."""
    if target.numel() < 2:
        return None
    spread = float(target.var())
    if spread == 0.0:
        return None
    return 1.0 - float((target - value).var()) / spread


def error_quantiles(value: Tensor, target: Tensor) -> dict[str, float]:
    """Return how far values are from their targets, for the middle and the worst steps."""
    errors = (target - value).abs().flatten()
    errors = errors[:: max(errors.numel() // MOST_ERRORS, 1)].float()
    if not errors.numel():
        return {}
    found = torch.quantile(errors, errors.new_tensor([0.5, 0.9, 0.99])).tolist()
    named = zip((50, 90, 99), found, strict=True)
    return {f"train/td_error_p{p}": error for p, error in named if math.isfinite(error)}


def normalised(advantage: Tensor) -> Tensor:
    """Return advantages with mean 0 and deviation 1; a single one is left as it is."""
    if advantage.numel() < 2:
        return advantage
    deviation, mean = torch.std_mean(advantage)
    return (advantage - mean) / (deviation + 1e-8)
