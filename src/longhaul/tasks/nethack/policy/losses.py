"""The seven losses that shape router and experts; each is a scalar that a setting weighs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

FLOOR = 1e-8
LEAST_DEVIATION = 1e-3
"""Differences of scores below this are noise."""


def alpha_entropy(alpha: Tensor) -> Tensor:
    """Return the mean entropy of the weights [N, K] of each step, in nats."""
    return -(alpha * (alpha + FLOOR).log()).sum(1).mean()


def load_balance(alpha: Tensor) -> Tensor:
    """Return how far the experts' mean weights are from equal shares, squared."""
    return (alpha.mean(0) - 1.0 / alpha.shape[1]).square().mean()


def similarity(expert_logits: Tensor) -> Tensor:
    """Return the cosine [N, K, K] between the logits [N, K, A] of every two experts."""
    direction = F.normalize(expert_logits, dim=2)
    return direction @ direction.transpose(1, 2)


def diversity(similar: Tensor) -> Tensor:
    """Return the mean cosine over pairs of different experts; it can be negative."""
    experts = similar.shape[1]
    trace = similar.diagonal(dim1=1, dim2=2).sum(1)
    return (similar.sum((1, 2)) - trace).mean() / (experts * (experts - 1))


def semantic(similar: Tensor) -> Tensor:
    """Return the mean of |cosine| over different experts, times (K - 1) / K."""
    experts = similar.shape[1]
    size = similar.abs()
    trace = size.diagonal(dim1=1, dim2=2).sum(1)
    return (size.sum((1, 2)) - trace).mean() / experts**2


def overlap(alpha: Tensor, similar: Tensor) -> Tensor:
    """Return how much experts that act together are alike."""
    together = alpha.unsqueeze(2) * alpha.unsqueeze(1)
    shared = together * similar
    return (shared.sum((1, 2)) - shared.diagonal(dim1=1, dim2=2).sum(1)).mean()


def temporal(alpha: Tensor, before: Tensor, continued: Tensor) -> Tensor:
    """Return the mean squared change of the weights since the step before, where there was one.

    `continued` [N] is False on the first step of an episode.
    """
    change = (alpha - before).square().mean(1)
    counted = continued.to(change.dtype)
    return (change * counted).sum() / counted.sum().clamp(min=1)


def alignment(target: Tensor, log_weights: Tensor) -> Tensor:
    """Return KL(target || weights), the mean over rows, given the logarithms of the weights."""
    return (target * (target.clamp(min=FLOOR).log() - log_weights)).sum(1).mean()


def floored_log(alpha: Tensor) -> Tensor:
    """Return the logarithm of weights, of which the smallest count as 1e-8."""
    return alpha.clamp(min=FLOOR).log()


def unusual(scores: Tensor) -> Tensor:
    """Return scores [N, K] in deviations from each expert's own mean over the rows."""
    if scores.shape[0] < 2:
        return scores
    deviation, mean = torch.std_mean(scores, 0)
    return (scores - mean) / (deviation + LEAST_DEVIATION)


def alignment_target(expert_scores: Tensor, temperature: float) -> Tensor:
    """Return what the rules recommend [N, K]: a softmax over standardised expert scores [N, K].

    Standardised, so that a temperature means the same whatever the scale of the scores.
    """
    centred = expert_scores - expert_scores.mean(1, keepdim=True)
    deviation = centred.square().mean(1, keepdim=True).sqrt()
    return torch.softmax(centred / (deviation + FLOOR) / temperature, 1)
