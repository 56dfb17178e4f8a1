"""The terms of a learner's loss, and measurements of an update.

All functions take flat tensors of the n steps that are learned from. Each term has a gradient
derived by hand, d loss / d output: autograd through a dozen operations on 512 numbers would cost
more than a tenth of what a small network does. The tests compare each with autograd.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from longhaul.core.policy import ActionEvaluation
from longhaul.core.settings import Settings
from longhaul.learn.config import ENT_COEF, aux_weight

MOST_ERRORS = 20_000
"""Steps that quantiles of errors are taken over, evenly spread."""


@dataclass(frozen=True, slots=True)
class LossTerm:
    """weight * mean(losses), a function of one output of the policy; `2.0 * term` weights it."""

    name: str  # of its metric
    output: Tensor  # [n], an output of the policy, with its graph
    losses: Tensor  # [n], detached and not weighted
    slope: Tensor | None  # [n], d losses / d output / factor; None for all ones
    factor: float = 1.0
    weight: float = 1.0

    @staticmethod
    def of(name: str, loss: Tensor) -> LossTerm:
        """Return a scalar that autograd differentiates as a term."""
        return LossTerm(name, loss, loss.detach(), None)

    def __rmul__(self, weight: float) -> LossTerm:
        return replace(self, weight=weight * self.weight)

    def __add__(self, other: LossTerm | Loss) -> Loss:
        return Loss((self,)) + other

    def gradient(self, share: float) -> Tensor:
        """Return the gradient of the weighted mean, times the share."""
        scale = self.factor * (self.weight * share) / self.output.numel()
        if self.slope is None:
            return torch.full_like(self.output, scale)
        return self.slope * scale


@dataclass(frozen=True, slots=True)
class Loss:
    """A sum of weighted terms."""

    terms: tuple[LossTerm, ...] = ()

    def __add__(self, other: LossTerm | Loss) -> Loss:
        return Loss((*self.terms, *(other.terms if isinstance(other, Loss) else (other,))))

    def backward(self, share: float = 1.0) -> None:
        """Add the gradient, times the share, to that of the policy's parameters."""
        felt = [term for term in self.terms if term.weight != 0 and term.output.requires_grad]
        torch.autograd.backward(
            [term.output for term in felt], [term.gradient(share) for term in felt]
        )


def clipped_surrogate(
    log_prob: Tensor, ratio: Tensor, advantage: Tensor, *, clip_range: float
) -> tuple[LossTerm, Tensor]:
    """Return -min(r A, clip(r, 1 - epsilon, 1 + epsilon) A), and where r is clipped."""
    clipped_ratio = ratio.clamp(1.0 - clip_range, 1.0 + clip_range)
    free = ratio * advantage
    clipped = clipped_ratio * advantage
    # d r / d log pi = r, so the derivative is -r A, and 0 where the clipped product is smaller.
    # In this order of comparison a NaN stays in the gradient, where the guard finds it.
    slope = torch.where(clipped < free, 0.0, free)
    losses = torch.minimum(free, clipped, out=free).neg_()
    is_outside = torch.ne(ratio, clipped_ratio)
    return LossTerm("train/policy_gradient_loss", log_prob, losses, slope, -1.0), is_outside


def vtrace_policy_gradient(
    log_prob: Tensor, rho: Tensor, advantage: Tensor, *, name: str = "train/policy_gradient_loss"
) -> LossTerm:
    """Return -rho_s A_s log pi(a_s|x_s) with constant rho and A."""
    # d / d log pi = -rho A
    slope = (rho * advantage).neg_()
    return LossTerm(name, log_prob, slope * log_prob.detach(), slope)


def value_error(
    value: Tensor, target: Tensor, weight: Tensor | None = None, *, name: str = "train/value_loss"
) -> LossTerm:
    """Return w (V - target)^2, with w = 1 unless weights are given."""
    # d / d V = 2 w (V - target)
    difference = value.detach() - target
    squares = difference.square()
    if weight is not None:
        squares, difference = squares * weight, difference * weight
    return LossTerm(name, value, squares, difference, 2.0)


def clipped_value_error(
    value: Tensor, target: Tensor, old_value: Tensor, *, clip_range_vf: float
) -> LossTerm:
    """Return (V' - target)^2 with V' = V_old + clip(V - V_old, -epsilon_v, epsilon_v)."""
    # d / d V = 2 (V' - target), and 0 where V is clipped
    move = value.detach() - old_value
    difference = old_value + move.clamp(-clip_range_vf, clip_range_vf) - target
    slope = torch.where(move.abs() > clip_range_vf, 0.0, difference)
    return LossTerm("train/value_loss", value, difference.square(), slope, 2.0)


def entropy_loss(entropy: Tensor) -> LossTerm:
    """Return -S: the loss is smaller for a more random policy."""
    return LossTerm("train/entropy_loss", entropy, -entropy.detach(), None, -1.0)


def policy_terms(judgment: ActionEvaluation, entropy: Tensor, settings: Settings) -> Loss:
    """Return the entropy bonus and the policy's own losses, each weighted by its setting."""
    own = (
        aux_weight(settings, name) * LossTerm.of(f"train/aux_{name}", loss)
        for name, loss in judgment.aux_losses.items()
    )
    return Loss((settings[ENT_COEF] * entropy_loss(entropy), *own))


def policy_measures(judgment: ActionEvaluation) -> dict[str, Tensor]:
    """Return the policy's own measurements under `policy/`, unless they name their group."""
    return {
        name if "/" in name else f"policy/{name}": measured.detach()
        for name, measured in judgment.metrics.items()
    }


def approximate_kl(ratio: Tensor, log_ratio: Tensor) -> Tensor:
    """Return (r - 1) - log r, whose mean is a low-variance estimate of KL(old, new)."""
    return (ratio - log_ratio).sub_(1.0)


def value_metrics(fits: Sequence[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Return how well values fit their targets, given pairs of both, each [n]."""
    if not fits:
        return {}
    value, target = (torch.cat(part) for part in zip(*fits, strict=True))
    metrics = error_quantiles(value, target)
    explained = explained_variance(value, target)
    if explained is not None and math.isfinite(explained):
        metrics["train/explained_variance"] = explained
    return metrics


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


def normalized(advantage: Tensor) -> Tensor:
    """Return advantages with mean 0 and deviation 1; a single one is left as it is."""
    if advantage.numel() < 2:
        return advantage
    deviation, mean = torch.std_mean(advantage)
    return (advantage - mean) / (deviation + 1e-8)
