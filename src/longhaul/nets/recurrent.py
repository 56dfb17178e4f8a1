"""Memory cores: GRU and LSTM with resets inside the sequence, and a causal transformer.

The input's part of the gates is one matrix product over the whole sequence, and so is the gradient
of the recurrent weights; only what really depends on the step before is done step by step.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longhaul.core.rollout import Memory
from longhaul.nets.dense import orthogonal_linear, refuse_second_derivative


class SequenceCore(nn.Module, ABC):
    """A memory that steps row by row while acting and runs over whole sequences while learning."""

    outputs: int

    @abstractmethod
    def initial_state(self, rows: int) -> Memory:
        """Return the memory of rows that begin an episode: zeros."""

    @abstractmethod
    def step(self, features: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """Return outputs [N, outputs] of features [N, inputs], and the next memory."""

    @abstractmethod
    def sequence(self, features: Tensor, memory: Memory, started: Tensor) -> tuple[Tensor, Memory]:
        """Return outputs [L, B, outputs] of features [L, B, inputs], and the memory after them.

        `memory` is that before the first step; where `started` [L, B], it is cleared first.
        """


class NoCore(SequenceCore):
    """No memory: features pass through."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.outputs = inputs

    def initial_state(self, rows: int) -> Memory:
        """Return an empty memory."""
        return {}

    def step(self, features: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """Return the features."""
        return features, memory

    def sequence(self, features: Tensor, memory: Memory, started: Tensor) -> tuple[Tensor, Memory]:
        """Return the features."""
        return features, memory


sigmoid_backward = torch.ops.aten.sigmoid_backward.default
tanh_backward = torch.ops.aten.tanh_backward.default
Keep = Sequence[Tensor | None]
"""Per step, zero [B, 1] for the rows that begin an episode and one for the others; None if none
begins one."""


class _Recurrent(SequenceCore):
    """The weights of `gates` gates, named and laid out as in torch.nn's cells."""

    states: tuple[str, ...]  # the names of the memory, each [rows, size]

    def __init__(self, inputs: int, size: int, *, gates: int) -> None:
        super().__init__()
        self.outputs = size
        self.weight_ih = nn.Parameter(torch.empty(gates * size, inputs))
        self.weight_hh = nn.Parameter(torch.empty(gates * size, size))
        self.bias_ih = nn.Parameter(torch.zeros(gates * size))
        self.bias_hh = nn.Parameter(torch.zeros(gates * size))
        with torch.no_grad():
            for weight in (self.weight_ih, self.weight_hh):
                for gate in weight.chunk(gates):
                    nn.init.orthogonal_(gate)

    def initial_state(self, rows: int) -> Memory:
        """Return zeros."""
        return {name: self.weight_hh.new_zeros(rows, self.outputs) for name in self.states}

    def _weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh


class Gru(_Recurrent):
    """A gated recurrent unit."""

    states = ("hidden",)

    def __init__(self, inputs: int, size: int) -> None:
        super().__init__(inputs, size, gates=3)

    def step(self, features: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """Return the next hidden state, which is also the memory."""
        hidden = torch.gru_cell(features, memory["hidden"], *self._weights())
        return hidden, {"hidden": hidden}

    def sequence(self, features: Tensor, memory: Memory, started: Tensor) -> tuple[Tensor, Memory]:
        """Return every hidden state and the last one."""
        projected = F.linear(features, self.weight_ih, self.bias_ih)
        outputs = _gru_loop(
            projected.float(),
            memory["hidden"],
            self.weight_hh,
            self.bias_hh,
            keep_factors(started, projected.dtype),
        )
        return outputs, {"hidden": outputs[-1]}


class Lstm(_Recurrent):
    """A long short-term memory."""

    states = ("hidden", "cell")

    def __init__(self, inputs: int, size: int) -> None:
        super().__init__(inputs, size, gates=4)
        with torch.no_grad():
            # A forget gate that starts open lets gradients reach far back from the first update.
            self.bias_ih[size : 2 * size] = 1.0

    def step(self, features: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """Return the next hidden state and the memory of both states."""
        before = [memory["hidden"], memory["cell"]]
        hidden, cell = torch.lstm_cell(features, before, *self._weights())
        return hidden, {"hidden": hidden, "cell": cell}

    def sequence(self, features: Tensor, memory: Memory, started: Tensor) -> tuple[Tensor, Memory]:
        """Return every hidden state, and the last hidden state and cell."""
        projected = F.linear(features, self.weight_ih, self.bias_ih + self.bias_hh)
        outputs, cell = _lstm_loop(
            projected.float(),
            memory["hidden"],
            memory["cell"],
            self.weight_hh,
            keep_factors(started, projected.dtype),
        )
        return outputs, {"hidden": outputs[-1], "cell": cell}


def keep_factors(started: Tensor, dtype: torch.dtype) -> Keep:
    """Return what each step's memory is multiplied by, None for steps without a start."""
    factors = (~started).to(dtype).unsqueeze(-1)
    return [
        factor if begins else None
        for factor, begins in zip(factors, started.any(1).tolist(), strict=True)
    ]


def _kept(state: Tensor, factor: Tensor | None) -> Tensor:
    return state if factor is None else state * factor


class _GruLoop(torch.autograd.Function):
    """The part of a GRU that goes step by step."""

    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor, keep: Keep
    ) -> Tensor:
        """Return the hidden states [L, B, H] from projected inputs [L, B, 3 H]."""
        steps, rows, _ = projected.shape
        size = hidden.shape[1]
        outputs = projected.new_empty(steps, rows, size)
        earlier = projected.new_empty(steps, rows, size)
        gates = projected.new_empty(steps, rows, 4 * size)  # reset, update, candidate, its part
        turned = weight.t()
        for t in range(steps):
            before = earlier[t].copy_(_kept(hidden, keep[t]))
            recurrent = torch.addmm(bias, before, turned)
            own = gates[t]
            torch.add(projected[t, :, : 2 * size], recurrent[:, : 2 * size], out=own[:, : 2 * size])
            reset, update = own[:, : 2 * size].sigmoid_().chunk(2, 1)
            part = own[:, 3 * size :].copy_(recurrent[:, 2 * size :])
            candidate = own[:, 2 * size : 3 * size]
            torch.addcmul(projected[t, :, 2 * size :], reset, part, out=candidate)
            hidden = torch.lerp(candidate.tanh_(), before, update, out=outputs[t])
        ctx.save_for_backward(gates, earlier, weight)
        ctx.keep = keep
        return outputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of everything but `keep`."""
        refuse_second_derivative()
        gates, earlier, weight = ctx.saved_tensors
        steps, rows, size = earlier.shape
        for_input = torch.empty_like(gates[:, :, : 3 * size], memory_format=torch.contiguous_format)
        for_hidden = torch.empty_like(for_input)
        carried = torch.zeros_like(earlier[0])
        for t in range(steps - 1, -1, -1):
            reset, update, candidate, part = gates[t].chunk(4, 1)
            carried = carried + grad[t]
            into_candidate = tanh_backward(carried * (1.0 - update), candidate)
            into_update = sigmoid_backward(carried * (earlier[t] - candidate), update)
            into_reset = sigmoid_backward(into_candidate * part, reset)
            torch.cat((into_reset, into_update, into_candidate), 1, out=for_input[t])
            torch.cat((into_reset, into_update, into_candidate * reset), 1, out=for_hidden[t])
            carried = torch.addmm(carried * update, for_hidden[t], weight)
            carried = _kept(carried, ctx.keep[t])
        flat = for_hidden.view(steps * rows, -1)
        into_weight = torch.mm(flat.t(), earlier.view(steps * rows, size))
        return for_input, carried, into_weight, flat.sum(0), None


class _LstmLoop(torch.autograd.Function):
    """The part of an LSTM that goes step by step."""

    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, keep: Keep
    ) -> tuple[Tensor, Tensor]:
        """Return the hidden states [L, B, H] and the last cell from inputs [L, B, 4 H]."""
        steps, rows, _ = projected.shape
        size = hidden.shape[1]
        outputs = projected.new_empty(steps, rows, size)
        earlier = projected.new_empty(2, steps, rows, size)  # hidden, cell
        bent = projected.new_empty(steps, rows, size)  # tanh of the cell
        gates = projected.new_empty(steps, rows, 4 * size)  # input, forget, candidate, output
        turned = weight.t()
        for t in range(steps):
            before = earlier[0, t].copy_(_kept(hidden, keep[t]))
            cell_before = earlier[1, t].copy_(_kept(cell, keep[t]))
            own = torch.addmm(projected[t], before, turned, out=gates[t])
            own[:, : 2 * size].sigmoid_()
            own[:, 2 * size : 3 * size].tanh_()
            own[:, 3 * size :].sigmoid_()
            entry, forget, candidate, exit_ = own.chunk(4, 1)
            cell = torch.addcmul(entry * candidate, forget, cell_before)
            hidden = torch.mul(exit_, torch.tanh(cell, out=bent[t]), out=outputs[t])
        ctx.save_for_backward(gates, earlier, bent, weight)
        ctx.keep = keep
        return outputs, cell

    @staticmethod
    def backward(ctx: Any, grad: Tensor, grad_cell: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of everything but `keep`."""
        refuse_second_derivative()
        gates, earlier, bent, weight = ctx.saved_tensors
        steps, rows, size = bent.shape
        for_gates = torch.empty_like(gates)
        carried = torch.zeros_like(bent[0])
        for t in range(steps - 1, -1, -1):
            entry, forget, candidate, exit_ = gates[t].chunk(4, 1)
            carried = carried + grad[t]
            into_cell = grad_cell + tanh_backward(carried * exit_, bent[t])
            into = (
                sigmoid_backward(into_cell * candidate, entry),
                sigmoid_backward(into_cell * earlier[1, t], forget),
                tanh_backward(into_cell * entry, candidate),
                sigmoid_backward(carried * bent[t], exit_),
            )
            torch.cat(into, 1, out=for_gates[t])
            carried = _kept(torch.mm(for_gates[t], weight), ctx.keep[t])
            grad_cell = _kept(into_cell * forget, ctx.keep[t])
        flat = for_gates.view(steps * rows, -1)
        into_weight = torch.mm(flat.t(), earlier[0].view(steps * rows, size))
        return for_gates, carried, grad_cell, into_weight, None


_gru_loop: Callable[..., Tensor] = _GruLoop.apply
_lstm_loop: Callable[..., tuple[Tensor, Tensor]] = _LstmLoop.apply


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
