"""How a router's logits become weights of experts: softmax, sparsemax, or the best few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

import torch
from torch import Tensor

from longhaul.tasks.nethack.policy.settings import RouterKind


def route(logits: Tensor, kind: RouterKind, temperature: float) -> Tensor:
    """Return weights [N, K] that are not negative and add up to 1, sharper the lower the
    temperature."""
    scaled = logits / temperature
    match kind:
        case "softmax":
            return torch.softmax(scaled, 1)
        case "sparsemax":
            return sparsemax(scaled)
        case "topk":
            return best_few(scaled)
        case _:
            assert_never(kind)


def sparsemax(logits: Tensor) -> Tensor:
    """Return the point of the simplex nearest to each row of logits [N, K] (Martins 2016)."""
    return _sparsemax(logits)


def best_few(logits: Tensor) -> Tensor:
    """Return the softmax over the better half of each row, at least two; the others get 0."""
    kept = max(2, logits.shape[1] // 2)
    threshold = logits.topk(kept, 1).values[:, -1:]
    return torch.softmax(logits.masked_fill(logits < threshold, -torch.inf), 1)


class _Sparsemax(torch.autograd.Function):
    """The projection with its gradient in closed form."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        """Return the projection."""
        ordered = logits.sort(1, descending=True).values
        total = ordered.cumsum(1) - 1
        rank = torch.arange(1, logits.shape[1] + 1, dtype=logits.dtype, device=logits.device)
        size = (rank * ordered > total).sum(1, keepdim=True)
        threshold = total.gather(1, size - 1) / size
        weights = (logits - threshold).clamp_(min=0)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """Return the gradient of the logits: within the support, less its mean there."""
        (weights,) = ctx.saved_tensors
        support = (weights > 0).to(grad.dtype)
        mean = (grad * support).sum(1, keepdim=True) / support.sum(1, keepdim=True)
        kept: Tensor = support * (grad - mean)
        return kept


_sparsemax: Callable[[Tensor], Tensor] = _Sparsemax.apply
