"""A policy of plain layers as flat arrays that native code works on.

All sizes of layers are filled up to multiples of 16. What is filled up is zero and stays so: its
weights, gradients and moments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longhaul.core.env import Array
from longhaul.core.policy import VECTOR, PlainLayer, PlainNetwork, VectorPart
from longhaul.core.rollout import TensorTree
from longhaul.learn.native import kernels as at
from longhaul.learn.native.kernels import Arrays
from longhaul.learn.native.loss import FACTS
from longhaul.learn.native.tile import WIDTH

KINDS = ("weights", "gradient", "exp_avg", "exp_avg_sq")
"""The flat arrays."""
_ACTIVATIONS = {"none": 0, "tanh": at.IS_TANH, "relu": at.IS_RELU}


def _filled(size: int) -> int:
    return -(-size // WIDTH) * WIDTH


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a layer leaves behind for one sample: an image, channels last, or a 1 x 1 image."""

    height: int
    width: int
    channels: int
    room: int
    """Channels with what they are filled up with."""

    @property
    def size(self) -> int:
        return self.height * self.width * self.room


@dataclass(frozen=True, slots=True)
class _Patch:
    """Where numbers of one parameter lie in a flat array, whose matrix is [rows, columns]."""

    name: str
    place: int
    rows: tuple[int, ...]  # of the padded matrix, perhaps as an image or a window
    used: tuple[int, ...]  # of them, at the beginning of each
    columns: int
    outputs: slice  # the columns of this parameter
    inputs: slice  # of the parameter as [outputs, inputs]

    def view(self, flat: Array) -> Array:
        """Return its part of a flat array as the parameter has it: outputs, channels, window."""
        size = math.prod(self.rows) * self.columns
        matrix = flat[self.place : self.place + size].reshape(*self.rows, self.columns)
        inside: Array = matrix[(*(slice(0, used) for used in self.used), self.outputs)]
        last = inside.ndim - 1
        return inside.transpose(last, *((last - 1, *range(last - 1)) if last else ()))

    def own(self, parameter: Array) -> Array:
        """Return its part of the parameter as [outputs, inputs]."""
        assert parameter.flags.c_contiguous, f"{self.name} would be copied"
        part: Array = parameter.reshape(len(parameter), -1)[:, self.inputs]
        return part


class NativeNetwork:
    """The arrays of one network; parameters are copied in before a native call and out after.

    One that only acts has no room for gradients and moments.
    """

    def __init__(
        self, plain: PlainNetwork, parameters: Mapping[str, Tensor], *, learns: bool = True
    ) -> None:
        self.plain = plain
        self._shapes = {name: tuple(p.shape) for name, p in parameters.items()}
        self._patches: list[_Patch] = []
        self._size = 0
        self.inputs = sum(part.size for part in plain.parts)
        self.pixels = sum(image.size for image in plain.images)
        self._results = at.ROWS * _filled(self.inputs)
        self._blocks: dict[int, tuple[int, int]] = {}
        self._left: list[_Shape] = []
        rows = [self._row(number, layer) for number, layer in enumerate(plain.layers)]
        log_std = self._vector(plain.log_std) if plain.log_std else at.NO_LOG_STD
        if missing := self._shapes.keys() - {patch.name for patch in self._patches}:
            raise ValueError(f"the network does not name the parameter {min(missing)!r}")
        self.actions = self._shapes[f"{plain.policy}.weight"][0]
        layers = np.array(rows, np.int64)
        groups = np.cumsum([0, *plain.choices], dtype=np.int64)
        marks = (*self._end(plain.policy)[:1], *self._end(plain.value), log_std, self.actions)
        self.network: Arrays = (layers, groups, np.array(marks, np.int64))
        of_learning = int(learns)
        self.flat: Arrays = (
            _floats(self._size),
            *(_floats(self._size * of_learning) for _ in KINDS[1:]),
        )
        windows = [row[at.LAYER_INPUTS] * self._places(n) for n, row in enumerate(rows)]
        self.work: Arrays = (
            _floats(self._size * of_learning),
            _floats(self._results + WIDTH),  # lines of images are copied 16 numbers at a time
            _floats(self._results * of_learning),
            _floats(int(layers[:, : at.LAYER_OUTPUTS + 1].max())),
            _floats(_filled(self.actions)),
            _floats(at.IMAGES * max(windows) + WIDTH if plain.images else 0),
            _floats(at.IMAGES * self.pixels + WIDTH),
            np.zeros((at.ROWS, FACTS), np.float32),
            np.zeros((at.ROWS, len(plain.choices)), np.int64),
        )

    def _places(self, number: int) -> int:
        left = self._left[number]
        return left.height * left.width

    def _end(self, name: str) -> tuple[int, int]:
        """Return the layer an outlet belongs to, and its first column there."""
        for number, layer in enumerate(self.plain.layers):
            if name in layer.names:
                before = layer.names[: layer.names.index(name)]
                return number, sum(self._shapes[f"{one}.weight"][0] for one in before)
        raise ValueError(f"no layer is named {name!r}")

    def _source(self, number: int) -> _Shape:
        """Return what a layer, or a part of the observation, leaves behind."""
        if number >= 0:
            return self._left[number]
        if number == VECTOR:
            return _Shape(1, 1, self.inputs, _filled(self.inputs))
        channels, height, width = self.plain.images[VECTOR - 1 - number].shape
        return _Shape(height, width, channels, channels)

    def _row(self, number: int, layer: PlainLayer) -> list[int]:
        """Place a layer; return its row of the table."""
        row = [0] * at.COLUMNS
        sources = [self._source(source) for source in layer.sources]
        outputs = sum(self._shapes[f"{name}.weight"][0] for name in layer.names)
        width = _filled(outputs)
        left = _Shape(1, 1, outputs, width)
        if layer.windows is None:
            inputs = sum(source.size for source in sources)
        else:
            (source,), windows = sources, layer.windows
            height, columns = (
                (size + 2 * edge - windows.size) // windows.stride + 1
                for size, edge in zip((source.height, source.width), windows.edges, strict=True)
            )
            left = _Shape(height, columns, outputs, width)
            inputs = windows.size**2 * source.room
            shape = (source.height, source.width, source.room, height, columns)
            row[at.LAYER_WINDOW :] = [windows.size, windows.stride, *windows.edges, *shape]
        inputs = _filled(inputs)
        self._left.append(left)
        row[at.LAYER_INPUTS], row[at.LAYER_OUTPUTS] = inputs, width
        row[at.LAYER_WEIGHT], row[at.LAYER_BIAS] = self._size, self._size + inputs * width
        row[at.LAYER_ACTIVATION] = _ACTIVATIONS[layer.activation]
        row[at.LAYER_SOURCE], row[at.LAYER_SOURCE_ROW] = self._read(layer.sources[0])
        row[at.LAYER_READS_LAYER] = int(layer.sources[0] >= 0)
        row[at.LAYER_RESULT], row[at.LAYER_RESULT_ROW] = self._write(number)
        self._add_patches(layer, sources, row)
        self._size += (inputs + 1) * width
        return row

    def _read(self, source: int) -> tuple[int, int]:
        """Return where a source begins in the results, and the distance between its rows."""
        if source >= 0:
            return self._blocks[source]
        if source == VECTOR:
            return 0, _filled(self.inputs)
        return sum(image.size for image in self.plain.images[: VECTOR - 1 - source]), self.pixels

    def _write(self, number: int) -> tuple[int, int]:
        """Return where a layer's results are, beside those that are read together with them."""
        if number not in self._blocks:
            # What is read together lies side by side, so nothing has to be copied.
            read = [layer.sources for layer in self.plain.layers if number in layer.sources]
            together = read[0] if read else (number,)
            sizes = [self._room(one) for one in together]
            begins = np.cumsum([0, *sizes]).tolist()
            for one, begin in zip(together, begins, strict=False):
                self._blocks[one] = self._results + begin, begins[-1]
            self._results += at.ROWS * begins[-1]
        return self._blocks[number]

    def _room(self, number: int) -> int:
        """Return the numbers a layer leaves behind for one sample."""
        if number < len(self._left):
            return self._left[number].size
        # Only layers without windows are read beside others, see `nets.plain`.
        layer = self.plain.layers[number]
        return _filled(sum(self._shapes[f"{name}.weight"][0] for name in layer.names))

    def _add_patches(self, layer: PlainLayer, sources: list[_Shape], row: list[int]) -> None:
        """Note where the parameters of a layer are."""
        width, column = row[at.LAYER_OUTPUTS], 0
        for name in layer.names:
            outputs = slice(column, column + self._shapes[f"{name}.weight"][0])
            column = outputs.stop
            place, begin = row[at.LAYER_WEIGHT], 0
            for source in sources:
                height, columns = source.height, source.width
                if layer.windows is not None:
                    height = columns = layer.windows.size
                used = (height, columns, source.channels)
                rows = (height, columns, source.room)
                inputs = slice(begin, begin + math.prod(used))
                weight = _Patch(f"{name}.weight", place, rows, used, width, outputs, inputs)
                self._patches.append(weight)
                place, begin = place + math.prod(rows) * width, inputs.stop
            bias = row[at.LAYER_BIAS]
            self._patches.append(_Patch(f"{name}.bias", bias, (), (), width, outputs, slice(0, 1)))

    def _vector(self, name: str) -> int:
        """Place a parameter that belongs to the whole network."""
        place, (size,) = self._size, self._shapes[name]
        outputs = slice(0, size)
        self._patches.append(_Patch(name, place, (), (), _filled(size), outputs, slice(0, 1)))
        self._size += _filled(size)
        return place

    def clear(self) -> None:
        """Fill all arrays with zeros.

        An update that overflows leaves NaN in the padding. Every later one would then be redone in
        torch, which rounds differently, until the run is resumed.
        """
        for array in (*self.flat, *self.work):
            array.fill(0)

    def read(self, kind: str, tensors: Mapping[str, Tensor]) -> None:
        """Copy tensors of parameters into a flat array."""
        for patch, part in self._views(self.flat[KINDS.index(kind)]):
            part[...] = patch.own(tensors[patch.name].detach().numpy()).reshape(part.shape)

    def write(self, kind: str, tensors: Mapping[str, Tensor]) -> None:
        """Copy a flat array out into tensors of parameters."""
        for patch, part in self._views(self.flat[KINDS.index(kind)]):
            own = patch.own(tensors[patch.name].detach().numpy())
            own[...] = part.reshape(own.shape)

    def _views(self, flat: Array) -> Iterator[tuple[_Patch, Array]]:
        for patch in self._patches:
            yield patch, patch.view(flat)

    def vector(self, obs: TensorTree) -> Array:
        """Return the vectors of observations as the network reads them, [N, inputs]."""
        if not self.plain.parts:
            return np.zeros((len(next(iter(obs.values()))), 0), np.float32)
        with torch.no_grad():
            found: Array = self.plain.inputs(obs).contiguous().numpy()
        return found

    def bytes_of(self, obs: TensorTree, out: Array) -> Array:
        """Write the bytes of all images, channels last, to [N, pixels]."""
        first = 0
        for image in self.plain.images:
            channels, height, width = image.shape
            here = torch.from_numpy(out)[:, first : first + image.size]
            pixels = here.unflatten(1, (height, width, channels))
            pixels.copy_(obs[image.name].permute(0, 2, 3, 1))
            first += image.size
        return out

    def check(self, data: Arrays) -> None:
        """Raise if native code would read or write beyond an array with these samples."""
        inputs, pixels, chosen, action, mask, facts = data
        count = len(inputs)
        continuous = 0 if self.plain.choices else self.actions
        shapes = {
            "observations": (inputs, {(count, self.inputs)}, np.float32),
            "images": (pixels, {(count, self.pixels)}, np.uint8),
            "choices": (chosen, {(count, len(self.plain.choices))}, np.int64),
            "continuous actions": (action, {(count, continuous)}, np.float32),
            "mask": (mask, {(1, 0), (count, self.actions)}, np.bool_),
            "facts": (facts, {(count, FACTS)}, np.float32),
        }
        for name, (array, allowed, kind) in shapes.items():
            if array.shape not in allowed or array.dtype != kind or not array.flags.c_contiguous:
                raise ValueError(
                    f"{name} are {array.dtype} {array.shape}, the network takes "
                    f"{np.dtype(kind)} {min(allowed)}"
                )
        if count and ((chosen < 0) | (chosen >= np.array(self.plain.choices, np.int64))).any():
            raise ValueError(f"an action is not among the choices {self.plain.choices}")

    def padding(self) -> NDArray[np.bool_]:
        """Return which numbers of a flat array belong to no parameter."""
        is_padding = np.ones(self._size, bool)
        for _, part in self._views(is_padding):
            part[...] = False
        return is_padding


def smallest_network() -> NativeNetwork:
    """Return a network that is good for compiling only."""
    names = ("policy.weight", "policy.bias", "value.weight", "value.bias")
    parameters = {name: torch.zeros((1, 1) if "weight" in name else 1) for name in names}
    plain = PlainNetwork(
        inputs=lambda obs: obs["x"],
        parts=(VectorPart("x", 1),),
        images=(),
        layers=(PlainLayer(("policy", "value"), (VECTOR,)),),
        policy="policy",
        value="value",
        choices=(1,),
    )
    return NativeNetwork(plain, parameters)


def _floats(size: int) -> Array:
    return np.zeros(size, np.float32)
