"""Native functions bound to their arguments: what is done for one simulator, and chains of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numba
import numpy as np
from numba import types

from longhaul.core.env import Array
from longhaul.envs.crew.words import words_of

Labour = Callable[[Any, int, int], int]
"""`labour(pointer, index, member)`: its arguments are `fetch(pointer)`, `index` is the simulator,
`member` the thread of a crew. Any answer but 0 leaves the rest of the chain to Python."""

_compiled: list[Any] = []
"""Native code lives as long as the object that compiled it."""


@dataclass(frozen=True, slots=True)
class Link:
    """A native function with the words of its arguments."""

    address: int
    words: Array
    arguments: tuple[Any, ...]  # kept alive for the words


class Chain:
    """Links that are done one after another for each simulator."""

    def __init__(self, *links: Link) -> None:
        self.links = links
        places = [(link.address, link.words.ctypes.data) for link in links]
        self.table = np.array(places, np.int64).reshape(-1, 2)  # where functions and words are

    def after(self, done: int) -> Chain:
        """Return what is left to do when some links are done."""
        return Chain(*self.links[done:])


def bind(labour: Labour, arguments: tuple[Any, ...]) -> Link:
    """Return a labour with its arguments, compiled once per machine for such arguments."""
    kind = cast(Any, numba).typeof(arguments)
    return Link(_address(labour, kind), words_of(arguments), arguments)


@functools.cache
def _address(labour: Labour, kind: Any) -> int:
    # Numba's types know neither its pointers nor the options of its callbacks.
    pointer, callback = cast(Any, types).CPointer(kind), cast(Any, numba.cfunc)
    signature = types.int64(pointer, types.int64, types.int64)
    compiled = callback(signature, nopython=True, cache=True, error_model="numpy")(labour)
    _compiled.append(compiled)
    return int(compiled.address)
