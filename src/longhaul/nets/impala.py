"""The residual image trunk of the IMPALA paper."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longhaul.nets.first_convolution import image_floats, scaled_weight
from longhaul.nets.nature import initialise_convolution
from longhaul.nets.noisy import linear_layer

IMPALA_CHANNELS = (16, 32, 32)
IMPALA_BATCH = 64
"""Rows per piece: the first stage's buffers then stay in the cache's reach."""


class _Residual(nn.Module):
    """Two convolutions beside the identity."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        initialise_convolution(self.first)
        # A small second convolution starts the block near the identity.
        initialise_convolution(self.second, gain=0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the same shape as `x`."""
        result: Tensor = x + self.second(self.first(x.relu()).relu_())
        return result


class _Stage(nn.Module):
    """A convolution, a pooling that halves the image, and two residual blocks."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.entry = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.blocks = nn.ModuleList((_Residual(outputs), _Residual(outputs)))
        initialise_convolution(self.entry, gain=1.0)

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return the stage's output; `weight` stands for the entry's own."""
        x = F.conv2d(x, weight, self.entry.bias, padding=1)
        x = F.max_pool2d(x, 3, 2, padding=1)
        for block in self.blocks:
            x = block(x)
        return x


class ImpalaCnn(nn.Module):
    """Three residual stages and a linear layer over uint8 images, scaled by 1/255."""

    def __init__(
        self,
        shape: tuple[int, int, int],
        *,
        outputs: int = 256,
        width: int = 1,
        noise_scale: float = 0.0,
    ) -> None:
        super().__init__()
        channels = [shape[0], *(width * count for count in IMPALA_CHANNELS)]
        self.outputs = outputs
        self.stages = nn.ModuleList(
            _Stage(channels[index], channels[index + 1]) for index in range(len(IMPALA_CHANNELS))
        )
        left = channels[-1] * math.prod(-(-size // 8) for size in shape[1:])
        self.last = linear_layer(left, outputs, gain=math.sqrt(2.0), noise_scale=noise_scale)

    def forward(self, images: Tensor) -> Tensor:
        """Return [N, outputs] of images [N, channels, height, width]."""
        if images.shape[0] <= IMPALA_BATCH:
            return self._piece(images)
        return torch.cat([self._piece(piece) for piece in images.split(IMPALA_BATCH)])

    def _piece(self, images: Tensor) -> Tensor:
        x = image_floats(images)
        for index, stage in enumerate(self.stages):
            assert isinstance(stage, _Stage)
            x = stage(x, stage.entry.weight if index else scaled_weight(stage.entry))
        result: Tensor = self.last(x.relu_().flatten(1)).relu_()
        return result
