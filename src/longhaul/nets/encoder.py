"""Reading observations of named parts: images, vectors, or both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from longhaul.core.errors import ConfigError
from longhaul.core.policy import VectorPart
from longhaul.core.rollout import Memory, TensorTree
from longhaul.core.spaces import Part
from longhaul.nets.cnn import NATURE_MINIMUM, ImpalaCnn, LeanCnn, NatureCnn
from longhaul.nets.config import PolicyConfig
from longhaul.nets.dense import DirectLayer, Mlp, RunningNormalizer
from longhaul.nets.recurrent import SequenceCore

BYTE_SCALE = 1.0 / 255.0
SMALLEST = {"nature": NATURE_MINIMUM}
"""The least height and width of an image for trunks that cannot read all."""
SMALLEST_TILES = 5
"""Height and width from which on an image has neighbors worth a convolution."""
SMALLEST_PICTURE = 16
"""Height and width from which on an array is taken for a picture."""
MOST_CHANNELS = 4
"""Channels of a picture of numbers that are not bytes; with more it may be anything."""


def is_image(part: Part) -> bool:
    """Whether a part has the form of an image: bytes, channels x height x width."""
    return part.dtype == "uint8" and len(part.shape) == 3


def image_parts(parts: Mapping[str, Part], config: PolicyConfig) -> tuple[str, ...]:
    """Return the names of the parts that go through an image network."""
    images = [name for name, part in parts.items() if is_image(part)]
    smallest = {name: min(parts[name].shape[1:]) for name in images}
    match config.trunk:
        case "auto":
            return tuple(name for name in images if smallest[name] >= SMALLEST_TILES)
        case "nature" | "impala" | "lean":
            if not images:
                raise ConfigError(
                    f"policy.trunk = {config.trunk!r} needs images, but the observation is "
                    f"{_listed(parts)}; use 'auto' or 'mlp'"
                )
            least = SMALLEST.get(config.trunk, 0)
            for name in images:
                if smallest[name] < least:
                    raise ConfigError(
                        f"policy.trunk = {config.trunk!r} needs images (channels, height, width) "
                        f"of at least {least}x{least} pixels, but {name!r} is "
                        f"{parts[name].shape}; use 'impala' or 'mlp'"
                    )
            return tuple(images)
        case _:  # `mlp` and classes of users
            return ()


def image_warnings(parts: Mapping[str, Part], config: PolicyConfig) -> tuple[str, ...]:
    """Return a warning for every part that looks like an image but is read by an MLP."""
    if config.trunk == "mlp" or ":" in config.trunk:
        return ()
    read = image_parts(parts, config)
    problems = {name: _unlike_image(part) for name, part in parts.items() if name not in read}
    return tuple(
        f"observation {name!r} {parts[name].shape} looks like an image but {problem}"
        for name, problem in problems.items()
        if problem
    )


def _unlike_image(part: Part) -> str:
    """Return why an image is not read by an image network, with the remedy; else nothing."""
    shape, is_bytes = part.shape, part.dtype == "uint8"
    if is_bytes and len(shape) == 2 and min(shape) >= SMALLEST_PICTURE:
        return (
            "has no channels, so it is read by an MLP; "
            f"return it as (height, width, channels) = {(*shape, 1)}"
        )
    if len(shape) != 3 or sorted(shape)[1] < SMALLEST_PICTURE:
        return ""
    if not is_bytes and min(shape) <= MOST_CHANNELS:
        return f"is {part.dtype}, so it is read by an MLP; return it as uint8 from 0 to 255"
    return ""


def _listed(parts: Mapping[str, Part]) -> str:
    return ", ".join(f"{name!r} {part.dtype} {part.shape}" for name, part in parts.items())


def module_name(part: str) -> str:
    """Return a part's name in a form that can stand in a parameter's name."""
    return part.replace(".", "_")


class Vector(nn.Module):
    """All parts that are not images as one float vector, normalized if asked for.

    Bytes are scaled by 1/255; other numbers are taken as they are.
    """

    def __init__(self, parts: Mapping[str, Part], *, normalize: bool, clip: float) -> None:
        super().__init__()
        self.outputs = sum(math.prod(part.shape) for part in parts.values())
        self.normalizers = nn.ModuleDict(
            {
                module_name(name): RunningNormalizer(part.shape, clip=clip)
                for name, part in parts.items()
                if normalize and part.dtype.startswith("float")
            }
        )
        self._parts = dict(parts)
        # A shortcut for the commonest case: one float vector.
        self._plain = ""
        if len(parts) == 1 and not self.normalizers:
            ((name, part),) = parts.items()
            self._plain = name if part.dtype == "float32" and len(part.shape) == 1 else ""

    def forward(self, obs: TensorTree) -> Tensor:
        """Return [N, outputs]."""
        if self._plain:
            return obs[self._plain]
        found = [self._flat(name, obs[name]) for name in self._parts]
        return found[0] if len(found) == 1 else torch.cat(found, 1)

    def floats(self, name: str, part: Tensor) -> Tensor:
        """Return one part as floats in its own shape."""
        if part.dtype == torch.uint8:
            return part.float().mul_(BYTE_SCALE)
        x = part.float()
        if (key := module_name(name)) in self.normalizers:
            x = self.normalizers[key](x)
        return x

    def _flat(self, name: str, part: Tensor) -> Tensor:
        x = self.floats(name, part)
        return x.reshape(x.shape[0], -1)

    def vector_parts(self) -> tuple[VectorPart, ...]:
        """Return what `forward` does to each part."""
        return tuple(self._vector_part(name, part) for name, part in self._parts.items())

    def _vector_part(self, name: str, part: Part) -> VectorPart:
        size, factor = math.prod(part.shape), BYTE_SCALE if part.dtype == "uint8" else 1.0
        if (key := module_name(name)) not in self.normalizers:
            return VectorPart(name, size, factor)
        normalizer = self.normalizers[key]
        assert isinstance(normalizer, RunningNormalizer)
        return VectorPart(name, size, factor, normalizer.present, normalizer.clip)

    def observe(self, obs: TensorTree, active: Tensor) -> None:
        """Update the normalizers from observations [..., shape] where `active` [...]."""
        for name in self._parts:
            if (key := module_name(name)) in self.normalizers:
                normalizer = self.normalizers[key]
                assert isinstance(normalizer, RunningNormalizer)
                normalizer.observe(obs[name][active])


class Encoder(nn.Module):
    """One feature vector from all parts: image networks and an MLP, side by side."""

    def __init__(
        self,
        parts: Mapping[str, Part],
        images: tuple[str, ...],
        vector: Vector,
        config: PolicyConfig,
    ) -> None:
        super().__init__()
        noise_scale = config.noise_scale if config.noisy in ("trunk", "both") else 0.0
        self.images = nn.ModuleDict(
            {module_name(name): _image_network(parts[name], config, noise_scale) for name in images}
        )
        self.vector = vector
        sizes = config.hidden if vector.outputs else ()
        self.mlp = Mlp(vector.outputs, sizes, activation=config.activation, noise_scale=noise_scale)
        together = config.image_features * len(images) + self.mlp.outputs
        self.joint = Mlp(together, config.joint, activation=config.activation)
        self.outputs = self.joint.outputs
        self._names = tuple((name, module_name(name)) for name in images)
        self._has_vector = vector.outputs > 0
        self._halves_anywhere = config.image_precision == "bfloat16"
        self._halves_on_processor = self._halves_anywhere or (
            config.image_precision == "auto" and processor_has_halves()
        )

    def forward(self, obs: TensorTree) -> Tensor:
        """Return [N, outputs]."""
        found = [self._features(key, obs[name]) for name, key in self._names]
        if self._has_vector:
            found.append(self.mlp.forward(self.vector.forward(obs)))
        together = found[0] if len(found) == 1 else torch.cat(found, 1)
        return self.joint.forward(together)

    @property
    def has_halves(self) -> bool:
        """Whether images are read in bfloat16 on this processor."""
        return bool(self._names) and self._halves_on_processor

    def image_networks(self) -> tuple[tuple[str, nn.Module], ...]:
        """Return every image's name and network."""
        return tuple((name, self.images[key]) for name, key in self._names)

    def _features(self, key: str, images: Tensor) -> Tensor:
        """Return an image network's features in float32, whatever it computed with."""
        if not (self._halves_on_processor if images.is_cpu else self._halves_anywhere):
            seen: Tensor = self.images[key](images)
            return seen
        # The cache of converted weights belongs to the process: another thread that leaves its own
        # context empties it between two pieces of this batch, and rounding depends on it.
        with torch.autocast(images.device.type, torch.bfloat16, cache_enabled=False):
            seen = self.images[key](images)
        return seen.float()


def processor_has_halves() -> bool:
    """Whether this processor multiplies bfloat16 itself; without, it is slower than float32."""
    return torch.backends.mkldnn.is_available() and bool(
        torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )


def _image_network(part: Part, config: PolicyConfig, noise_scale: float) -> nn.Module:
    channels, height, width = part.shape
    shape = (channels, height, width)
    if config.trunk == "impala":
        return ImpalaCnn(
            shape, outputs=config.image_features, width=config.impala_width, noise_scale=noise_scale
        )
    if config.trunk == "lean" or (config.trunk == "auto" and min(height, width) < NATURE_MINIMUM):
        return LeanCnn(shape, outputs=config.image_features, noise_scale=noise_scale)
    return NatureCnn(shape, outputs=config.image_features, noise_scale=noise_scale)


@dataclass(frozen=True, slots=True)
class Outlets:
    """The layers that end in the policy's and the value's outputs."""

    policy: DirectLayer
    value: DirectLayer


class SeparateBody(nn.Module):
    """Two MLPs over one vector, and no memory."""

    def __init__(self, vector: Vector, policy: Mlp, value: Mlp) -> None:
        super().__init__()
        self.outputs = policy.outputs
        self.vector = vector
        self.policy = policy
        self.value = value
        # A plain tuple: reaching modules through nn.Module costs a microsecond each on every step.
        self._direct = (vector, policy, value)

    def initial_state(self, rows: int) -> Memory:
        """Return an empty memory."""
        return {}

    def step(
        self, obs: TensorTree, memory: Memory, outlets: Outlets
    ) -> tuple[Tensor, Tensor, Memory]:
        """Return the outlets' [N, ...] for policy and value, and the next memory."""
        vector, policy, value = self._direct
        x = vector.forward(obs)
        for_policy = policy.forward(x, outlets.policy.affine())
        return for_policy, value.forward(x, outlets.value.affine()), memory

    def policy_step(
        self, obs: TensorTree, memory: Memory, outlets: Outlets
    ) -> tuple[Tensor, Memory]:
        """Return the policy's [N, ...] alone, and the next memory."""
        vector, policy, _ = self._direct
        return policy.forward(vector.forward(obs), outlets.policy.affine()), memory

    def value_step(self, obs: TensorTree, memory: Memory, outlets: Outlets) -> Tensor:
        """Return the value's [N, 1] alone."""
        vector, _, value = self._direct
        return value.forward(vector.forward(obs), outlets.value.affine())

    def sequence(
        self, obs: TensorTree, memory: Memory, started: Tensor, outlets: Outlets
    ) -> tuple[Tensor, Tensor]:
        """Return the outlets' [L * B, ...] of observations [L * B, ...].

        `started` [L, B] marks the steps before which the memory [B, ...] is cleared.
        """
        for_policy, for_value, _ = self.step(obs, memory, outlets)
        return for_policy, for_value

    def observe(self, obs: TensorTree, active: Tensor) -> None:
        """Update the vector's normalizers."""
        self.vector.observe(obs, active)


class Trunk(Protocol):
    """Makes one feature vector of an observation."""

    outputs: int
    vector: Vector

    def forward(self, obs: TensorTree) -> Tensor:
        """Return [N, outputs]."""


class SharedBody(nn.Module):
    """One encoder and one memory for both heads."""

    def __init__(self, encoder: Trunk, core: SequenceCore) -> None:
        super().__init__()
        self.outputs = core.outputs
        self.encoder = encoder
        self.core = core

    def initial_state(self, rows: int) -> Memory:
        """Return the core's zeros."""
        return self.core.initial_state(rows)

    def step(
        self, obs: TensorTree, memory: Memory, outlets: Outlets
    ) -> tuple[Tensor, Tensor, Memory]:
        """Return the outlets' [N, ...] for policy and value, and the next memory."""
        features, memory = self.core.step(self.encoder.forward(obs), memory)
        return outlets.policy(features), outlets.value(features), memory

    def policy_step(
        self, obs: TensorTree, memory: Memory, outlets: Outlets
    ) -> tuple[Tensor, Memory]:
        """Return the policy's [N, ...] alone, and the next memory."""
        features, memory = self.core.step(self.encoder.forward(obs), memory)
        return outlets.policy(features), memory

    def value_step(self, obs: TensorTree, memory: Memory, outlets: Outlets) -> Tensor:
        """Return the value's [N, 1] alone."""
        return outlets.value(self.core.step(self.encoder.forward(obs), memory)[0])

    def sequence(
        self, obs: TensorTree, memory: Memory, started: Tensor, outlets: Outlets
    ) -> tuple[Tensor, Tensor]:
        """Return the outlets' [L * B, ...], the memory cleared where `started` [L, B]."""
        features = self.encoder.forward(obs).unflatten(0, started.shape)
        features, _ = self.core.sequence(features, memory, started)
        features = features.flatten(0, 1)
        return outlets.policy(features), outlets.value(features)

    def observe(self, obs: TensorTree, active: Tensor) -> None:
        """Update the encoder's normalizers."""
        self.encoder.vector.observe(obs, active)


Body = SeparateBody | SharedBody
"""Turns observations and memory into the outputs of both outlets."""
