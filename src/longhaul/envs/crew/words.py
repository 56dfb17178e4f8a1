"""Handing native code its arguments as plain words of memory, so that one call fits all.

A tuple of arrays and numbers is written down once, as the words that describe it; the native
function gets the address of the words and has its tuple back. No reference is counted and no Python
is needed for it: whoever wrote the words keeps the arrays alive.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from longhaul.core.env import Array

WORD = ir.IntType(64)
# Numba gives no types for it.
_populate = cast(Any, populate_array)


def words_of(arguments: Any) -> Array:
    """Return the words that describe a tuple of arrays and numbers, which may be nested."""
    return np.array(list(_words(arguments)), np.int64)


def _words(value: Any) -> Iterator[int]:
    match value:
        case np.ndarray():
            yield value.ctypes.data
            yield from value.shape
            yield from value.strides
        case tuple():
            for part in value:
                yield from _words(part)
        case float():
            yield struct.unpack("<q", struct.pack("<d", value))[0]
        case _:
            yield int(value)


class _Reader:
    """Generates the code that makes a tuple from its words."""

    def __init__(self, context: Any, builder: Any, words: Any) -> None:
        self._context = context
        self._builder = builder
        self._words = words
        self._next = 0

    def read(self, kind: Any) -> Any:
        """Return the next value, of this type of Numba's."""
        if isinstance(kind, types.Array):
            return self._array(kind)
        if isinstance(kind, types.BaseTuple):
            parts = [self.read(part) for part in cast(Any, kind)]
            return self._context.make_tuple(self._builder, kind, parts)
        if isinstance(kind, types.Float):
            return self._builder.bitcast(self._word(), ir.DoubleType())
        if isinstance(kind, types.Boolean):
            return self._builder.icmp_signed("!=", self._word(), WORD(0))
        assert kind == types.int64, f"{kind} is not handed over in a word"
        return self._word()

    def _word(self) -> Any:
        place = self._builder.gep(self._words, [WORD(self._next)])
        self._next += 1
        return self._builder.load(place)

    def _array(self, kind: Any) -> Any:
        context, builder = self._context, self._builder
        element = context.get_data_type(kind.dtype)
        data = builder.inttoptr(self._word(), element.as_pointer())
        shape = [self._word() for _ in range(kind.ndim)]
        strides = [self._word() for _ in range(kind.ndim)]
        array = context.make_array(kind)(context, builder)
        itemsize = context.get_abi_sizeof(element)
        _populate(array, data, shape, strides, itemsize, meminfo=None)
        return array._getvalue()


def _type_fetch(typing_context: Any, pointer: Any) -> Any:
    kind = pointer.dtype

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words = builder.bitcast(arguments[0], WORD.as_pointer())
        return _Reader(context, builder, words).read(kind)

    return kind(pointer), generate


fetch = cast(Any, intrinsic(_type_fetch))
"""Return, in native code, the tuple whose words a pointer points to."""
