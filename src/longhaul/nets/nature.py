"""The image trunk of the Nature paper on DQN."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from longhaul.nets.first_convolution import first_convolution
from longhaul.nets.noisy import linear_layer

NATURE_MINIMUM = 36
"""The smallest height and width the three convolutions leave anything of."""
NATURE_BATCH = 256
"""Larger batches go through in pieces: their buffers would not be reused by the allocator, which
cost 15 % at 512 rows of 4x84x84."""


class NatureCnn(nn.Module):
    """Three convolutions and a linear layer over uint8 images, scaled by 1/255."""

    def __init__(
        self, shape: tuple[int, int, int], *, outputs: int = 512, noise_scale: float = 0.0
    ) -> None:
        super().__init__()
        channels, height, width = shape
        self.outputs = outputs
        self.first = nn.Conv2d(channels, 32, 8, 4)
        self.second = nn.Conv2d(32, 64, 4, 2)
        self.third = nn.Conv2d(64, 64, 3, 1)
        for layer in (self.first, self.second, self.third):
            initialise_convolution(layer)
        left = 64 * _left(height) * _left(width)
        self.last = linear_layer(left, outputs, gain=math.sqrt(2.0), noise_scale=noise_scale)

    def forward(self, images: Tensor) -> Tensor:
        """Return [N, outputs] of images [N, channels, height, width]."""
        if images.shape[0] <= NATURE_BATCH:
            return self._piece(images)
        return torch.cat([self._piece(piece) for piece in images.split(NATURE_BATCH)])

    def _piece(self, images: Tensor) -> Tensor:
        x = first_convolution(self.first, images).relu_()
        x = self.second(x).relu_()
        x = self.third(x).relu_()
        result: Tensor = self.last(x.flatten(1)).relu_()
        return result


def _left(size: int) -> int:
    """Return what the three convolutions leave of a height or width."""
    return (((size - 8) // 4 + 1) - 4) // 2 + 1 - 2


def initialise_convolution(layer: nn.Conv2d, gain: float = math.sqrt(2.0)) -> None:
    """Give a convolution orthogonal weights and a zero bias."""
    nn.init.orthogonal_(layer.weight, gain)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
