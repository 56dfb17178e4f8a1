"""A policy of fully connected layers as flat arrays that native code works on.

All sizes are filled up to multiples of 16. What is filled up is zero and stays so: its weights,
gradients and moments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from longhaul.core.env import Array
from longhaul.core.policy import DenseNetwork
from longhaul.learn.native.kernels import FROM_INPUTS, ROWS
from longhaul.learn.native.loss import FACTS
from longhaul.learn.native.tile import WIDTH
from longhaul.learn.native.update import NO_LOG_STD, Arrays

KINDS = ("weights", "gradient", "exp_avg", "exp_avg_sq")
"""The flat arrays."""


def _filled(size: int) -> int:
    return -(-size // WIDTH) * WIDTH


@dataclass(frozen=True, slots=True)
class _Patch:
    """Where one parameter lies in a flat array."""

    name: str
    place: int
    row: int  # length of a row of the padded matrix
    first_column: int
    shape: tuple[int, ...]

    def view(self, flat: Array) -> Array:
        """Return the parameter's part of a flat array, in the parameter's own shape."""
        outputs = self.shape[0]
        if len(self.shape) == 1:
            first = self.place + self.first_column
            return flat[first : first + outputs]
        inputs = self.shape[1]
        matrix = flat[self.place : self.place + inputs * self.row].reshape(inputs, self.row)
        part: Array = matrix[:, self.first_column : self.first_column + outputs].T
        return part


class NativeNetwork:
    """The arrays of one network; parameters are copied in before a native call and out after."""

    def __init__(self, dense: DenseNetwork, parameters: Mapping[str, Tensor]) -> None:
        self.dense = dense
        self._shapes = {name: tuple(p.shape) for name, p in parameters.items()}
        self._patches: list[_Patch] = []
        self._size = 0
        self._results = 0
        rows: list[tuple[int, ...]] = []
        ends: list[bool] = []
        marks = dict.fromkeys(("policy", "value", "column"), 0)
        for names, outlets in dense.nets:
            source = FROM_INPUTS
            for name in names:
                rows.append(self._layer((name,), source))
                ends.append(False)
                source = rows[-1][-1]
            column = 0
            for outlet in outlets:
                if outlet == dense.value:
                    marks["value"], marks["column"] = len(rows), column
                else:
                    marks["policy"] = len(rows)
                column += self._shapes[f"{outlet}.weight"][0]
            rows.append(self._layer(outlets, source))
            ends.append(True)
        log_std = self._vector(dense.log_std) if dense.log_std else NO_LOG_STD
        if missing := self._shapes.keys() - {patch.name for patch in self._patches}:
            raise ValueError(f"the network does not name the parameter {min(missing)!r}")
        self.inputs = self._shapes[f"{(*dense.nets[0][0], *dense.nets[0][1])[0]}.weight"][1]
        self.actions = self._shapes[f"{dense.policy}.weight"][0]
        layers = np.array(rows, np.int64)
        groups = np.cumsum([0, *dense.choices], dtype=np.int64)
        placed = [marks["policy"], marks["value"], marks["column"], log_std, self.actions]
        is_tanh = int(dense.activation == "tanh")
        self.network: Arrays = (
            layers,
            np.array(ends),
            groups,
            np.array([*placed, is_tanh], np.int64),
        )
        self.flat: Arrays = tuple(_floats(self._size) for _ in KINDS)
        widest = int(layers[:, :2].max())
        self.work: Arrays = (
            _floats(self._size),
            np.zeros((ROWS, _filled(self.inputs)), np.float32),
            _floats(self._results),
            _floats(self._results),
            _floats(widest),
            _floats(_filled(self.actions)),
        )

    def _layer(self, names: Sequence[str], source: int) -> tuple[int, ...]:
        """Place layers side by side that read the same; return their row of the table."""
        shapes = [self._shapes[f"{name}.weight"] for name in names]
        inputs, width = _filled(shapes[0][1]), _filled(sum(shape[0] for shape in shapes))
        weight, bias = self._size, self._size + inputs * width
        self._size = bias + width
        column = 0
        for name, shape in zip(names, shapes, strict=True):
            self._patches.append(_Patch(f"{name}.weight", weight, width, column, shape))
            self._patches.append(_Patch(f"{name}.bias", bias, width, column, shape[:1]))
            column += shape[0]
        result, self._results = self._results, self._results + ROWS * width
        return inputs, width, weight, bias, source, result

    def _vector(self, name: str) -> int:
        """Place a parameter that belongs to the whole network."""
        place, shape = self._size, self._shapes[name]
        self._patches.append(_Patch(name, place, shape[0], 0, shape))
        self._size += _filled(shape[0])
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
        for name, part in self.parts(kind):
            part[...] = tensors[name].detach().numpy()

    def write(self, kind: str, tensors: Mapping[str, Tensor]) -> None:
        """Copy a flat array out into tensors of parameters."""
        for name, part in self.parts(kind):
            tensors[name].detach().numpy()[...] = part

    def parts(self, kind: str) -> Iterator[tuple[str, Array]]:
        """Yield the name of each parameter and its part of a flat array, in its own shape."""
        flat = self.flat[KINDS.index(kind)]
        for patch in self._patches:
            yield patch.name, patch.view(flat)

    def check(self, inputs: Array, chosen: Array, action: Array, mask: Array, facts: Array) -> None:
        """Raise if native code would read or write beyond an array with these samples."""
        count = len(inputs)
        continuous = 0 if self.dense.choices else self.actions
        shapes = {
            "observations": (inputs, {(count, self.inputs)}, np.float32),
            "choices": (chosen, {(count, len(self.dense.choices))}, np.int64),
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
        if count and ((chosen < 0) | (chosen >= np.array(self.dense.choices, np.int64))).any():
            raise ValueError(f"an action is not among the choices {self.dense.choices}")

    def padding(self) -> NDArray[np.bool_]:
        """Return which numbers of a flat array belong to no parameter."""
        is_padding = np.ones(self._size, bool)
        for patch in self._patches:
            patch.view(is_padding)[...] = False
        return is_padding


def _floats(size: int) -> Array:
    return np.zeros(size, np.float32)
