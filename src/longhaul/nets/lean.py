"""A small image trunk, for tiles and for pixels where every millisecond counts."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from longhaul.nets.first_convolution import first_convolution, rows_per_piece
from longhaul.nets.nature import initialise_convolution
from longhaul.nets.noisy import linear_layer

LARGE = 36
"""From this height and width on, an image has pixels to be gathered, not tiles to be read."""
CENTRE = 0.5
"""Taken from scaled pixels. Most of a picture is bright in every state: features then have most of
their size in common, and what the value learns by them drowns what the policy does. On 84x84 of
Mario gradients were about four times as long without it, and runs explained 0.23 to 0.33 of the
returns after 100,000 steps, not 0.45. Planes of tiles are mostly zeros and stay as they are."""
LEAN_BATCH = 512
LEAN_VALUES = 128 * 4 * 84 * 84
"""Larger batches, in rows and in pixels, go through in pieces, whose buffers the allocator uses
again: 512 rows of 4x84x84 are 58 MB of floats, which would be fresh memory each time."""


class LeanCnn(nn.Module):
    """Two convolutions and a linear layer over uint8 images, scaled by 1/255.

    Images of pixels are centred and read with the 8x8 and 4x4 windows of the first paper on DQN,
    smaller ones, whose cells are things, with 3x3 windows. Where those do not come out even they
    reach one cell beyond the edge: every cell is read, also the lowest rows, Mario's ground.
    """

    def __init__(
        self, shape: tuple[int, int, int], *, outputs: int = 256, noise_scale: float = 0.0
    ) -> None:
        super().__init__()
        channels, height, width = shape
        self.outputs = outputs
        self.rows_at_once = rows_per_piece(shape, most=LEAN_BATCH, values=LEAN_VALUES)
        has_pixels = min(height, width) >= LARGE
        self.centre = CENTRE if has_pixels else 0.0
        if has_pixels:
            self.first = nn.Conv2d(channels, 16, 8, 4)
            self.second = nn.Conv2d(16, 32, 4, 2)
            left = _left(_left(height, 8, 4), 4, 2) * _left(_left(width, 8, 4), 4, 2)
        else:
            self.first = nn.Conv2d(channels, 16, 3, 2, (_edge(height), _edge(width)))
            height, width = _halved(height), _halved(width)
            self.second = nn.Conv2d(16, 32, 3, 2, (_edge(height), _edge(width)))
            left = _halved(height) * _halved(width)
        for layer in (self.first, self.second):
            initialise_convolution(layer)
        self.last = linear_layer(32 * left, outputs, gain=math.sqrt(2.0), noise_scale=noise_scale)

    def forward(self, images: Tensor) -> Tensor:
        """Return [N, outputs] of images [N, channels, height, width]."""
        if images.shape[0] <= self.rows_at_once:
            return self._piece(images)
        return torch.cat([self._piece(piece) for piece in images.split(self.rows_at_once)])

    def _piece(self, images: Tensor) -> Tensor:
        x = first_convolution(self.first, images, centre=self.centre).relu_()
        x = self.second(x).relu_()
        result: Tensor = self.last(x.flatten(1)).relu_()
        return result


def _left(size: int, window: int, stride: int) -> int:
    """Return what a convolution leaves of a height or width."""
    return (size - window) // stride + 1


def _edge(size: int) -> int:
    """Return how far windows of three with a stride of two reach beyond the edge to read all."""
    return 0 if size % 2 and size >= 3 else 1


def _halved(size: int) -> int:
    return _left(size + 2 * _edge(size), 3, 2)
