"""The lean image network as other trainers' users write it: plain layers, in plain order.

Run by interpreters that may have no more than torch, so it imports nothing of longhaul.
"""

from __future__ import annotations

from torch import nn

CHANNELS = (16, 32)
WINDOWS = ((8, 4), (4, 2))
"""Size and stride of both convolutions, as `longhaul.nets.cnn` has them for pixels."""


def plain_trunk(shape: tuple[int, int, int], outputs: int) -> nn.Sequential:
    """Return the trunk over floats [N, channels, height, width], centered or not."""
    channels, height, width = shape
    layers: list[nn.Module] = []
    for wide, (size, stride) in zip(CHANNELS, WINDOWS, strict=True):
        layers += [nn.Conv2d(channels, wide, size, stride), nn.ReLU()]
        channels = wide
        height, width = (height - size) // stride + 1, (width - size) // stride + 1
    layers += [nn.Flatten(), nn.Linear(channels * height * width, outputs), nn.ReLU()]
    return nn.Sequential(*layers)
