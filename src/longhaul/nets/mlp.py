"""The trunk for observations that are vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

from longhaul.nets.config import Activation
from longhaul.nets.dense import Affine, DirectLayer, feed_forward, linear_layer


class Mlp(nn.Module):
    """Fully connected layers, each followed by the activation."""

    def __init__(
        self,
        inputs: int,
        sizes: Sequence[int],
        *,
        activation: Activation = "tanh",
        noise_scale: float = 0.0,
    ) -> None:
        super().__init__()
        widths = [inputs, *sizes]
        self.activation: Activation = activation
        self.outputs = widths[-1]
        layers = [
            linear_layer(
                widths[index],
                widths[index + 1],
                gain=math.sqrt(2.0),
                noise_scale=noise_scale if index == len(sizes) - 1 else 0.0,
            )
            for index in range(len(sizes))
        ]
        self.layers = nn.ModuleList(layers)
        self._direct = [DirectLayer(layer) for layer in layers]

    def forward(self, x: Tensor, last: Affine | None = None) -> Tensor:
        """Return [N, outputs], or what the layer `last` makes of them."""
        return feed_forward(x, [layer.affine() for layer in self._direct], self.activation, last)
