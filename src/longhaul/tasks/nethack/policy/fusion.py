"""How what is seen and what the rules want become one vector."""

from __future__ import annotations

import math
from typing import assert_never

import torch
from torch import Tensor, nn

from longhaul.tasks.nethack.policy.options import Fusion

HEADS = 4
KEPT_SHARE = 0.3
"""Of the heads; at least one is kept."""


class Concat(nn.Module):
    """Both side by side."""

    def __init__(self, seen: int, intent: int) -> None:
        super().__init__()
        self.outputs = seen + intent

    def forward(self, seen: Tensor, intent: Tensor) -> Tensor:
        """Return [N, seen + intent]."""
        return torch.cat([seen, intent], 1)


class CrossAttention(nn.Module):
    """The intent asks, what is seen answers: of several heads only the best fitting are heard.

    The softmax is over all heads and the rest are then left out: among the kept ones alone it
    would be the constant 1 for one head, and nothing would learn to ask.
    """

    def __init__(self, seen: int, intent: int) -> None:
        super().__init__()
        self.outputs = seen
        self.size = seen // HEADS
        self.kept = max(1, int(KEPT_SHARE * HEADS))
        self.bridge = nn.Linear(intent, seen)
        self.query, self.key, self.value = (nn.Linear(seen, seen) for _ in range(3))
        for layer in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.out = nn.Linear(seen, seen)
        self.norm = nn.LayerNorm(seen)

    def forward(self, seen: Tensor, intent: Tensor) -> Tensor:
        """Return [N, seen]."""
        wanted = self.bridge(intent)
        query, key, value = (
            layer(x).view(-1, HEADS, self.size)
            for layer, x in ((self.query, wanted), (self.key, seen), (self.value, seen))
        )
        fit = (query * key).sum(2) / math.sqrt(self.size)
        weight = torch.softmax(fit, 1)
        least = fit.topk(self.kept, 1).values[:, -1:]
        weight = weight.masked_fill(fit < least, 0.0)
        heard = (weight.unsqueeze(2) * value).flatten(1)
        result: Tensor = self.norm(self.out(heard) + wanted)
        return result


def build_fusion(kind: Fusion, seen: int, intent: int) -> Concat | CrossAttention:
    """Return the module that joins vectors of these sizes."""
    match kind:
        case "concat":
            return Concat(seen, intent)
        case "cross_attention":
            return CrossAttention(seen, intent)
        case _:
            assert_never(kind)
