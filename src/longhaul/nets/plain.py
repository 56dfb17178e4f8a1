"""Describing a policy layer by layer, for code that computes it without torch."""

from __future__ import annotations

from typing import Literal

from torch import nn

from longhaul.core.policy import VECTOR, ImagePart, PlainLayer, PlainNetwork, Windows
from longhaul.nets.cnn import LeanCnn
from longhaul.nets.dense import Mlp
from longhaul.nets.encoder import Body, Encoder, SeparateBody
from longhaul.nets.heads import GaussianHead, Head, ValueHead
from longhaul.nets.recurrent import NoCore


class _Layers:
    """The layers listed so far; a place is what a further layer reads."""

    def __init__(self, policy: nn.Module) -> None:
        self._names = {module: name for name, module in policy.named_modules()}
        self.listed: list[PlainLayer] = []
        self.images: list[ImagePart] = []

    def add(self, module: nn.Module, sources: tuple[int, ...], activation: str) -> int:
        """List one layer and return its place."""
        windows = None
        if isinstance(module, nn.Conv2d):
            assert not isinstance(module.padding, str), "padding is a number of pixels"
            rows, columns = module.padding
            windows = Windows(module.kernel_size[0], module.stride[0], (rows, columns))
        name = (self._names[module],)
        kind: Literal["tanh", "relu"] = "tanh" if activation == "tanh" else "relu"
        self.listed.append(PlainLayer(name, sources, kind, windows))
        return len(self.listed) - 1

    def mlp(self, mlp: Mlp, sources: tuple[int, ...]) -> tuple[int, ...]:
        """List an MLP; return the places it leaves behind."""
        for layer in mlp.layers:
            sources = (self.add(layer, sources, mlp.activation),)
        return sources

    def image(self, name: str, network: LeanCnn) -> int:
        """List the network of an image."""
        place = VECTOR - 1 - len(self.images)
        self.images.append(ImagePart(name, network.shape))
        for layer in (network.first, network.second, network.last):
            place = self.add(layer, (place,), "relu")
        return place

    def outlets(self, heads: tuple[Head | ValueHead, ...], sources: tuple[int, ...]) -> None:
        """List layers that end the network, side by side."""
        self.listed.append(PlainLayer(tuple(self._names[head.layer] for head in heads), sources))


def describe(
    policy: nn.Module, body: Body, policy_head: Head, value_head: ValueHead
) -> PlainNetwork | None:
    """Return the layers of a body and its heads; None if it is more than the layers of `core`."""
    layers = _Layers(policy)
    if isinstance(body, SeparateBody):
        vector = body.vector
        mlps: tuple[Mlp, ...] = (body.policy, body.value)
        for mlp, head in zip(mlps, (policy_head, value_head), strict=True):
            layers.outlets((head,), layers.mlp(mlp, (VECTOR,)))
    else:
        encoder = body.encoder
        if not isinstance(encoder, Encoder) or not isinstance(body.core, NoCore):
            return None
        vector, mlps = encoder.vector, (encoder.mlp, encoder.joint)
        if not _can_list(encoder):
            return None
        sources = tuple(
            layers.image(name, network)
            for name, network in encoder.image_networks()
            if isinstance(network, LeanCnn)
        )
        if vector.outputs:
            sources += layers.mlp(encoder.mlp, (VECTOR,))
        layers.outlets((policy_head, value_head), layers.mlp(encoder.joint, sources))
    if any(mlp.layers and mlp.activation not in ("tanh", "relu") for mlp in mlps):
        return None
    names = {module: name for name, module in policy.named_modules()}
    return PlainNetwork(
        inputs=vector.forward,
        parts=vector.vector_parts(),
        images=tuple(layers.images),
        layers=tuple(layers.listed),
        policy=names[policy_head.layer],
        value=names[value_head.layer],
        choices=policy_head.choices,
        log_std="policy_head.log_std" if isinstance(policy_head, GaussianHead) else "",
    )


def _can_list(encoder: Encoder) -> bool:
    """Whether all images are read by networks for tiles, beside an MLP with layers, in float32."""
    networks = [network for _, network in encoder.image_networks()]
    if encoder.has_halves or not all(isinstance(n, LeanCnn) and not n.center for n in networks):
        return False
    return not networks or len(encoder.mlp.layers) > 0 or encoder.vector.outputs == 0
