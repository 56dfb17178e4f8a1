"""The modules the network is built of: encoder, fusion, router weights, and the experts' layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, assert_never

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longhaul.core.rollout import TensorTree
from longhaul.core.spaces import Part
from longhaul.tasks.nethack.policy.options import Fusion, Learned, PolicyOptions
from longhaul.tasks.nethack.vocabulary import (
    ATOM_BITS,
    CROP,
    GLYPH_CLASS_COUNT,
    MESSAGE,
    PACK,
    SKILLS,
    STATE,
)

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


def route(logits: Tensor, kind: Learned, temperature: float) -> Tensor:
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


KERNEL = 3


class MapView(nn.Module):
    """A small convolutional network over the classes of the cells around the hero."""

    classes: Tensor

    def __init__(self, size: int, channels: int, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs
        self.embed = nn.Embedding(GLYPH_CLASS_COUNT, channels)
        classes = torch.arange(GLYPH_CLASS_COUNT, dtype=torch.uint8)
        self.register_buffer("classes", classes, persistent=False)
        self.first = nn.Conv2d(channels, channels, KERNEL, padding=1)
        self.second = nn.Conv2d(channels, 2 * channels, KERNEL, stride=2, padding=1)
        half = (size + 1) // 2
        self.last = nn.Linear(2 * channels * half * half, outputs)

    def forward(self, crop: Tensor) -> Tensor:
        """Return [N, outputs] of classes [N, size, size]."""
        # As a product with ones and zeros: the gradient of a look-up adds row by row, which costs
        # more than both convolutions' forward pass.
        is_class = (crop.unsqueeze(3) == self.classes).to(self.embed.weight.dtype)
        cells = (is_class @ self.embed.weight).permute(0, 3, 1, 2)
        x = self.first(cells).relu_()
        x = self.second(x).relu_()
        result: Tensor = self.last(x.flatten(1)).relu_()
        return result


class SightEncoder(nn.Module):
    """One vector from everything the game shows but the atoms, which are for the graph."""

    def __init__(self, parts: Mapping[str, Part], options: PolicyOptions) -> None:
        super().__init__()
        # Who chooses skills sees the atoms too, as the plain network does.
        skills = (SKILLS, ATOM_BITS) if SKILLS in parts else ()
        self._vectors = tuple(name for name in (STATE, MESSAGE, PACK, *skills) if name in parts)
        inputs = sum(parts[name].shape[0] for name in self._vectors)
        self.map: MapView | None = None
        if CROP in parts:
            self.map = MapView(parts[CROP].shape[0], options.map_channels, options.map_features)
            inputs += self.map.outputs
        self.outputs = options.state_size
        self.layers = normed_mlp(inputs, (options.state_size, options.state_size))

    def forward(self, obs: TensorTree) -> Tensor:
        """Return [N, outputs]."""
        found = [obs[name].float() for name in self._vectors]
        if self.map is not None:
            found.append(self.map.forward(obs[CROP]))
        together = found[0] if len(found) == 1 else torch.cat(found, 1)
        result: Tensor = self.layers(together)
        return result


REQUIRED = (STATE, ATOM_BITS)
"""Parts of an observation without which there is nothing to act on."""
