"""Gymnasium's spaces as named arrays and plain action specs.

Observations become float32 or keep their integer dtype; one-hot for discrete ones. Images (uint8
of three axes whose last is the smallest) are turned from height, width, channel to channel,
height, width, which is what convolutions take; images that come channel-first stay as they are.
Planes of flags (bool of three axes, as MinAtar's) are images too, whose bytes are 0 and 255.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

import numpy as np
from gymnasium import spaces

from longhaul.core.env import Array, Observation
from longhaul.core.errors import ConfigError, EnvError
from longhaul.core.spaces import ActionSpec, Continuous, Discrete, MultiDiscrete, Part

Writer = Callable[[Any], None]
"""Writes one observation, as the env gave it, into the row it was made for."""

BARE_NAME = "obs"

_KEPT_DTYPES = frozenset({"uint8", "int8", "int16", "int32", "int64"})
_WIDENED_DTYPES = {"uint16": "int32", "uint32": "int64"}


@dataclass(frozen=True, slots=True)
class Leaf:
    """One simple space inside an observation space, and where its values are found."""

    name: str
    path: tuple[str | int, ...]
    space: spaces.Space[Any]
    part: Part

    def value(self, obs: Any) -> Any:
        """Return this leaf's value within a whole observation."""
        for key in self.path:
            obs = obs[key]
        return obs


class ObservationLayout:
    """How an env's observations are laid out in named arrays."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._leaves = tuple(
            Leaf(".".join(str(key) for key in path) or BARE_NAME, path, leaf, _part(leaf))
            for path, leaf in _leaves(space, ())
        )
        self.parts = {leaf.name: leaf.part for leaf in self._leaves}
        if not self.parts:
            raise ConfigError(f"observation space {space} is empty")
        if len(self.parts) < len(self._leaves):
            names = [leaf.name for leaf in self._leaves]
            raise ConfigError(f"observation space {space} gives one name to two parts: {names}")

    def writer(self, row: Observation) -> Writer:
        """Return the function that writes observations into `row`, arrays without a row axis."""
        writers = [(leaf.path, _leaf_writer(leaf, row[leaf.name])) for leaf in self._leaves]
        if writers[0][0] == ():
            return writers[0][1]

        def write(obs: Any) -> None:
            for path, write_leaf in writers:
                value = obs
                for key in path:
                    value = value[key]
                write_leaf(value)

        return write

    def refuse_foreign_kinds(self, obs: Any) -> None:
        """Refuse floats where the space declares integers: writing would truncate them."""
        for leaf in self._leaves:
            given = np.asarray(leaf.value(obs)).dtype
            if given.kind not in "biu" and not leaf.part.dtype.startswith("float"):
                raise EnvError(
                    f"observation {leaf.name!r} is {given}, "
                    f"but its space declares {leaf.space.dtype}"
                )


def _leaves(
    space: spaces.Space[Any], path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], spaces.Space[Any]]]:
    match space:
        case spaces.Dict():
            for key, inner in space.spaces.items():
                yield from _leaves(inner, (*path, key))
        case spaces.Tuple():
            for position, inner in enumerate(space.spaces):
                yield from _leaves(inner, (*path, position))
        case _:
            yield path, space


def _part(space: spaces.Space[Any]) -> Part:
    match space:
        case spaces.Box():
            shape = _channels_first(space.shape) if _is_image(space) else space.shape
            return Part(shape or (1,), _box_dtype(space))
        case spaces.Discrete():
            return Part((int(space.n),))
        case spaces.MultiBinary():
            return Part(space.shape)
        case spaces.MultiDiscrete():
            return Part((int(space.nvec.sum()),))
        case _:
            raise ConfigError(
                f"observation space {space} is not supported; supported are Box, Discrete, "
                "MultiBinary, MultiDiscrete, and Dict or Tuple of these"
            )


def _box_dtype(space: spaces.Box) -> str:
    if _is_flags(space):
        return "uint8"
    given = np.dtype(space.dtype).name
    return given if given in _KEPT_DTYPES else _WIDENED_DTYPES.get(given, "float32")


def _is_image(space: spaces.Box) -> bool:
    shape = space.shape
    if _is_flags(space):
        return True
    return space.dtype == np.uint8 and len(shape) == 3 and shape[2] < min(shape[:2])


def _is_flags(space: spaces.Box) -> bool:
    return space.dtype == np.bool_ and len(space.shape) == 3


def _channels_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    height, width, channels = shape
    return channels, height, width


def _leaf_writer(leaf: Leaf, row: Array) -> Writer:
    match leaf.space:
        case spaces.Box() if _is_flags(leaf.space):
            return _flags_writer(leaf, row.transpose(1, 2, 0))
        case spaces.Box():
            target = row.transpose(1, 2, 0) if _is_image(leaf.space) else row
            return _array_writer(leaf, target.reshape(()) if leaf.space.shape == () else target)
        case spaces.Discrete():
            return _one_hot_writer(leaf, int(leaf.space.start), row)
        case spaces.MultiDiscrete():
            return _one_hots_writer(leaf, leaf.space, row)
        case _:
            return _array_writer(leaf, row)


def _array_writer(leaf: Leaf, row: Array) -> Writer:
    shape = row.shape
    kinds = "fbiu" if row.dtype.kind == "f" else "biu"

    def write(value: Any) -> None:
        if type(value) is not np.ndarray or value.shape != shape:
            value = np.asarray(value)
            # A wrong shape could be broadcast silently, so it is checked first.
            if value.shape != shape:
                raise EnvError(
                    f"observation {leaf.name!r} has shape {value.shape}, "
                    f"but its space declares {shape}"
                )
        if value.dtype.kind not in kinds:
            raise EnvError(
                f"observation {leaf.name!r} is {value.dtype}, "
                f"but its space declares {leaf.space.dtype}"
            )
        row[...] = value

    return write


def _flags_writer(leaf: Leaf, row: Array) -> Writer:
    flags = np.zeros(row.shape, np.bool_)
    write_flags = _array_writer(leaf, flags)

    def write(value: Any) -> None:
        write_flags(value)
        np.multiply(flags, np.uint8(255), out=row)

    return write


def _one_hot_writer(leaf: Leaf, start: int, row: Array) -> Writer:
    count = len(row)

    def write(value: Any) -> None:
        choice = int(value) - start
        if not 0 <= choice < count:
            raise EnvError(f"observation {leaf.name!r} = {value} is outside {leaf.space}")
        row.fill(0.0)
        row[choice] = 1.0

    return write


def _one_hots_writer(leaf: Leaf, space: spaces.MultiDiscrete, row: Array) -> Writer:
    counts = space.nvec.ravel()
    start = space.start.ravel()
    offsets = np.cumsum(counts) - counts

    def write(value: Any) -> None:
        given = np.asarray(value)
        choices = given.ravel() - start
        if given.shape != space.shape or (choices < 0).any() or (choices >= counts).any():
            raise EnvError(f"observation {leaf.name!r} = {value} is outside {space}")
        row.fill(0.0)
        row[offsets + choices] = 1.0

    return write


@dataclass(frozen=True, slots=True)
class ActionCodec:
    """An action space as a spec, and the way back from [1, ...] arrays to the env's actions."""

    spec: ActionSpec
    decode: Callable[[Array], Any]


def action_codec(space: spaces.Space[Any]) -> ActionCodec:
    """Return the spec of an action space and the function that makes its actions."""
    match space:
        case spaces.Discrete():
            return _discrete_codec(space)
        case spaces.MultiDiscrete():
            return _multi_codec(tuple(int(n) for n in space.nvec.ravel()), space, space.start)
        case spaces.MultiBinary():
            size = int(np.prod(space.shape))
            return _multi_codec((2,) * size, space, np.zeros(space.shape, space.dtype))
        case spaces.Box() if np.issubdtype(space.dtype, np.floating):
            return _continuous_codec(space)
        case _:
            raise ConfigError(
                f"action space {space} is not supported; supported are Discrete, MultiDiscrete, "
                "MultiBinary, and Box of floats"
            )


def _discrete_codec(space: spaces.Discrete) -> ActionCodec:
    start = int(space.start)
    # Python integers pass the range check of Gymnasium's envs faster than NumPy's.
    if start == 0:
        return ActionCodec(Discrete(int(space.n)), methodcaller("item"))
    return ActionCodec(Discrete(int(space.n)), lambda actions: actions.item() + start)


def _multi_codec(counts: tuple[int, ...], space: spaces.Space[Any], start: Array) -> ActionCodec:
    shape, dtype = space.shape, space.dtype

    def decode(actions: Array) -> Array:
        # A fresh array: an env may keep the action it was given.
        return (actions.reshape(shape) + start).astype(dtype)

    return ActionCodec(MultiDiscrete(counts), decode)


def _continuous_codec(space: spaces.Box) -> ActionCodec:
    shape, dtype = space.shape, space.dtype
    low = space.low.astype(np.float32).ravel()
    high = space.high.astype(np.float32).ravel()

    def decode(actions: Array) -> Array:
        clipped = np.minimum(np.maximum(actions[0], low), high)
        decoded: Array = clipped.reshape(shape).astype(dtype, copy=False)
        return decoded

    return ActionCodec(
        Continuous(tuple(float(bound) for bound in low), tuple(float(bound) for bound in high)),
        decode,
    )
