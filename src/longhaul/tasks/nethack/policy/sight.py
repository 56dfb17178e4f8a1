"""Reading what the game shows: the numeric state, and the map around the hero if it is shown."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from longhaul.core.rollout import TensorTree
from longhaul.core.spaces import Part
from longhaul.tasks.nethack.policy.layers import normed_mlp
from longhaul.tasks.nethack.policy.options import PolicyOptions
from longhaul.tasks.nethack.vocabulary import (
    ATOM_BITS,
    CROP,
    GLYPH_CLASS_COUNT,
    MESSAGE,
    PACK,
    STATE,
)

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


class Sight(nn.Module):
    """One vector from everything the game shows but the atoms, which are for the graph."""

    def __init__(self, parts: Mapping[str, Part], options: PolicyOptions) -> None:
        super().__init__()
        self._vectors = tuple(name for name in (STATE, MESSAGE, PACK) if name in parts)
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
