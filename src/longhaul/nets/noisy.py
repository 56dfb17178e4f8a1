"""Layers that explore by learned noise in their weights."""

from __future__ import annotations

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longhaul.core.policy import SILENT
from longhaul.nets.dense import Affine, orthogonal_linear


class NoisyLinear(nn.Module):
    """A linear layer with factorised Gaussian noise; silent until noise is drawn.

    The noise is not part of the state: it is a pure function of the seed it was drawn from.
    """

    input_noise: Tensor
    output_noise: Tensor

    def __init__(self, inputs: int, outputs: int, *, gain: float, scale: float) -> None:
        super().__init__()
        mean = orthogonal_linear(inputs, outputs, gain=gain)
        deviation = scale / math.sqrt(inputs)
        self.weight = mean.weight
        self.bias = mean.bias
        self.weight_scale = nn.Parameter(torch.full((outputs, inputs), deviation))
        self.bias_scale = nn.Parameter(torch.full((outputs,), deviation))
        self.register_buffer("input_noise", torch.zeros(inputs), persistent=False)
        self.register_buffer("output_noise", torch.zeros(outputs), persistent=False)

    def affine(self) -> Affine:
        """Return weight and bias with the present noise."""
        noise = torch.outer(self.output_noise, self.input_noise)
        weight = torch.addcmul(self.weight, self.weight_scale, noise)
        return weight, torch.addcmul(self.bias, self.bias_scale, self.output_noise)

    def forward(self, x: Tensor) -> Tensor:
        """Return [N, outputs]."""
        return F.linear(x, *self.affine())

    def draw(self, generator: torch.Generator) -> None:
        """Fill the noise from a CPU generator."""
        for buffer in (self.input_noise, self.output_noise):
            normal = torch.randn(buffer.shape, generator=generator)
            buffer.copy_(normal.sign() * normal.abs().sqrt())

    def silence(self) -> None:
        """Remove the noise."""
        self.input_noise.zero_()
        self.output_noise.zero_()


class DirectLayer:
    """A layer called past nn.Module, which costs as much as the layer itself on small batches."""

    __slots__ = ("_noisy", "_table")

    def __init__(self, layer: nn.Linear | NoisyLinear) -> None:
        self._noisy = layer if isinstance(layer, NoisyLinear) else None
        # The layer's own table of parameters is up to date whatever replaces a parameter.
        self._table = cast("dict[str, Tensor]", layer._parameters)

    def affine(self) -> Affine:
        """Return the present weight and bias."""
        if self._noisy is not None:
            return self._noisy.affine()
        return self._table["weight"], self._table["bias"]

    def __call__(self, x: Tensor) -> Tensor:
        """Return [N, outputs]."""
        return F.linear(x, *self.affine())


def linear_layer(
    inputs: int, outputs: int, *, gain: float, noise_scale: float
) -> nn.Linear | NoisyLinear:
    """Return an orthogonal layer, noisy unless `noise_scale` is zero."""
    if noise_scale:
        return NoisyLinear(inputs, outputs, gain=gain, scale=noise_scale)
    return orthogonal_linear(inputs, outputs, gain=gain)


def draw_noise(module: nn.Module, seed: int) -> None:
    """Draw the noise of every noisy layer from one seed; `SILENT` removes it."""
    generator = torch.Generator()
    if seed != SILENT:
        generator.manual_seed(seed)
    with torch.no_grad():
        for layer in module.modules():
            if isinstance(layer, NoisyLinear):
                if seed == SILENT:
                    layer.silence()
                else:
                    layer.draw(generator)
