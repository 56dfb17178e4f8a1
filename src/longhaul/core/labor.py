"""Native functions whose arguments are written down once, and how they are called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numba
from numba import types

from longhaul.core.env import Array
from longhaul.core.native import words_of
from longhaul.core.system import function_at

Labor = Callable[[Any, int, int], int]
"""`labor(pointer, index, member)`: its arguments are `fetch(pointer)`. In a chain `index` is the
simulator, `member` the thread of a crew, and any answer but 0 leaves the rest of it to Python."""

_compiled: list[Any] = []
"""Native code lives as long as the object that compiled it."""


@dataclass(frozen=True, slots=True)
class Link:
    """A native function with the words of its arguments."""

    address: int
    words: Array
    arguments: tuple[Any, ...]  # kept alive for the words

    def with_arguments(self, arguments: tuple[Any, ...]) -> Link:
        """Return the function with other arguments of exactly the same types.

        Finding out types takes five times as long as writing words down.
        """
        words = words_of(arguments)
        assert len(words) == len(self.words), "other arguments are of other types"
        return Link(self.address, words, arguments)

    def caller(self) -> Callable[[int, int], int]:
        """Return the function for Python; it lets other threads run meanwhile.

        A call costs a microsecond, whatever the number of arguments.
        """
        function, words = function_at(self.address), self.words.ctypes.data

        def run(index: int, member: int, *, _kept: Link = self) -> int:
            return function(words, index, member)

        return run


def bind(labor: Labor, arguments: tuple[Any, ...]) -> Link:
    """Return a labor with its arguments, compiled once per machine for such arguments."""
    kind = cast(Any, numba).typeof(arguments)
    return Link(_address(labor, kind), words_of(arguments), arguments)


@functools.cache
def _address(labor: Labor, kind: Any) -> int:
    # Numba's types know neither its pointers nor the options of its callbacks.
    pointer, callback = cast(Any, types).CPointer(kind), cast(Any, numba.cfunc)
    signature = types.int64(pointer, types.int64, types.int64)
    compiled = callback(signature, nopython=True, cache=True, error_model="numpy")(labor)
    _compiled.append(compiled)
    return int(compiled.address)
