"""A causal transformer whose memory is the last inputs of each layer."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longhaul.core.rollout import Memory
from longhaul.nets.dense import orthogonal_linear
from longhaul.nets.recurrent import SequenceCore

BRANCH_SCALE = 0.1
"""Initial weight of attention and feed-forward beside the identity: the policy starts as one
without memory, from which reinforcement learning is stable."""


class _Layer(nn.Module):
    """Attention over earlier steps and a feed-forward network, both beside the identity."""

    def __init__(self, size: int, heads: int, memory_length: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(size)
        self.query = orthogonal_linear(size, size, gain=1.0)
        self.key_value = orthogonal_linear(size, 2 * size, gain=1.0)
        self.attended = orthogonal_linear(size, size, gain=1.0)
        self.attention_scale = nn.Parameter(torch.full((size,), BRANCH_SCALE))
        self.distance_bias = nn.Parameter(torch.zeros(heads, memory_length + 1))
        self.forward_norm = nn.LayerNorm(size)
        self.widen = orthogonal_linear(size, 4 * size, gain=math.sqrt(2.0))
        self.narrow = orthogonal_linear(4 * size, size, gain=1.0)
        self.forward_scale = nn.Parameter(torch.full((size,), BRANCH_SCALE))

    def forward(self, tokens: Tensor, fresh: int, distance: Tensor, blocked: Tensor) -> Tensor:
        """Return outputs [B, fresh, size] for the last of `tokens` [B, M + fresh, size].

        `distance` [fresh, M + fresh] is clamped to the memory's length; `blocked`
        [B, 1, fresh, M + fresh] is zero where a token may look and hugely negative elsewhere.
        """
        x = tokens[:, -fresh:]
        normed = self.attention_norm(tokens)
        query = self._split(self.query(normed[:, -fresh:]))
        key, value = (self._split(part) for part in self.key_value(normed).chunk(2, -1))
        bias = self.distance_bias[:, distance] + blocked
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        seen = self.attended(seen.transpose(1, 2).flatten(2))
        x = torch.addcmul(x, self.attention_scale, seen)
        widened: Tensor = F.gelu(self.widen(self.forward_norm(x)))
        return torch.addcmul(x, self.forward_scale, self.narrow(widened))

    def _split(self, x: Tensor) -> Tensor:
        """Return [B, T, size] as [B, heads, T, size / heads]."""
        split: Tensor = x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return split


class Transformer(SequenceCore):
    """Each step looks at up to `memory_length` earlier steps of its episode in every layer.

    Memory is `tokens` [rows, layers, memory_length, size], the newest last, and `valid` [rows],
    how many of them belong to the present episode. No gradient flows into it.
    """

    def __init__(
        self, inputs: int, size: int, *, layers: int, heads: int, memory_length: int
    ) -> None:
        super().__init__()
        self.outputs = size
        self.memory_length = memory_length
        self.entry = orthogonal_linear(inputs, size, gain=1.0)
        self.layers = nn.ModuleList(_Layer(size, heads, memory_length) for _ in range(layers))
        self.exit_norm = nn.LayerNorm(size)

    def initial_state(self, rows: int) -> Memory:
        """Return zeros: no step is remembered."""
        weight = self.entry.weight
        return {
            "tokens": weight.new_zeros(rows, len(self.layers), self.memory_length, self.outputs),
            "valid": torch.zeros(rows, dtype=torch.int64, device=weight.device),
        }

    def step(self, features: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """Return outputs and memory of a sequence of one step."""
        started = torch.zeros(1, features.shape[0], dtype=torch.bool, device=features.device)
        outputs, memory = self.sequence(features.unsqueeze(0), memory, started)
        return outputs[0], memory

    def sequence(self, features: Tensor, memory: Memory, started: Tensor) -> tuple[Tensor, Memory]:
        """Return outputs of all steps at once and the memory after the last."""
        steps, length = features.shape[0], self.memory_length
        episode = started.t().cumsum(1)  # [B, L], 0 as long as the memory's episode goes on
        distance, blocked = self._visibility(episode, memory["valid"])
        x = self.entry(features.transpose(0, 1))
        tokens = memory["tokens"]
        remembered = []
        for index, layer in enumerate(self.layers):
            line = torch.cat((tokens[:, index].to(x.dtype), x), 1)
            remembered.append(line[:, -length:].detach())
            x = layer(line, steps, distance, blocked.to(x.dtype))
        since = (episode == episode[:, -1:]).sum(1)
        goes_on = torch.where(episode[:, -1] == 0, memory["valid"], 0)
        after = {
            "tokens": torch.stack(remembered, 1),
            "valid": (since + goes_on).clamp_(max=length),
        }
        return self.exit_norm(x).transpose(0, 1), after

    def _visibility(self, episode: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        """Return the distances and the additive mask of each step over memory and steps."""
        steps, length = episode.shape[1], self.memory_length
        place = torch.arange(length + steps, device=episode.device)
        distance = place[length:, None] - place  # [L, M + L]
        near = (distance >= 0) & (distance <= length)
        # Remembered tokens count as episode 0 if they are valid and as none (-1) if not.
        of_memory = torch.where(place[:length] >= length - valid[:, None], 0, -1)
        of_all = torch.cat((of_memory, episode), 1)  # [B, M + L]
        visible = near & (episode[:, :, None] == of_all[:, None, :])
        blocked = torch.zeros(visible.shape, device=episode.device)
        blocked.masked_fill_(~visible, -1e9)
        return distance.clamp(0, length), blocked.unsqueeze(1)
