"""Stacks of layers with layer norms, one of them for several experts at once."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EXPERT_GAIN = 0.5
"""Of the experts' last layers; 0.01 left logits of about 0.02, and nothing was learned."""
ROUTER_GAIN = 0.1
VALUE_GAIN = 1.0


def normed_mlp(inputs: int, sizes: tuple[int, ...]) -> nn.Sequential:
    """Return layers that are each followed by a rectifier and a layer norm."""
    layers: list[nn.Module] = []
    for size in sizes:
        layers += [nn.Linear(inputs, size), nn.ReLU(inplace=True), nn.LayerNorm(size)]
        inputs = size
    return nn.Sequential(*layers)


def ending_in(inputs: int, sizes: tuple[int, ...], outputs: int, *, gain: float) -> nn.Sequential:
    """Return such layers with a linear one after them, orthogonal with this gain."""
    last = nn.Linear(sizes[-1] if sizes else inputs, outputs)
    nn.init.orthogonal_(last.weight, gain)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*normed_mlp(inputs, sizes), last)


class ExpertBank(nn.Module):
    """Several MLPs of one shape over the same inputs, as one matrix product per layer."""

    def __init__(self, inputs: int, size: int, outputs: int, *, experts: int) -> None:
        super().__init__()
        self.experts = experts
        self.size = size
        self.first_weight = nn.Parameter(_uniform(inputs, experts, size, inputs))
        self.first_bias = nn.Parameter(_uniform(inputs, experts, size))
        self.second_weight = nn.Parameter(_uniform(size, experts, size, size))
        self.second_bias = nn.Parameter(_uniform(size, experts, 1, size))
        self.scale = nn.Parameter(torch.ones(2, experts, 1, size))
        self.shift = nn.Parameter(torch.zeros(2, experts, 1, size))
        last = torch.empty(experts, outputs, size)
        for weight in last:
            nn.init.orthogonal_(weight, EXPERT_GAIN)
        self.last_weight = nn.Parameter(last)
        self.last_bias = nn.Parameter(torch.zeros(experts, 1, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Return [K, N, outputs] of inputs [N, inputs]."""
        flat = F.linear(x, self.first_weight.flatten(0, 1), self.first_bias.flatten())
        # Rows first for the norm, whose rows are then in one piece, experts first for the product.
        hidden = F.layer_norm(flat.relu_().view(x.shape[0], self.experts, -1), (self.size,))
        hidden = torch.addcmul(self.shift[0], hidden.transpose(0, 1), self.scale[0])
        hidden = torch.baddbmm(self.second_bias, hidden, self.second_weight.transpose(1, 2))
        hidden = F.layer_norm(hidden.relu_(), (self.size,))
        hidden = torch.addcmul(self.shift[1], hidden, self.scale[1])
        return torch.baddbmm(self.last_bias, hidden, self.last_weight.transpose(1, 2))


def _uniform(inputs: int, *shape: int) -> Tensor:
    """Return what torch draws for a linear layer with so many inputs."""
    bound = 1.0 / math.sqrt(inputs)
    return torch.empty(*shape).uniform_(-bound, bound)
