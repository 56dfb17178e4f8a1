"""How Python becomes native code: without the GIL, cached, and compiled again when it changes."""

from __future__ import annotations

import hashlib
import platform
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from longhaul.core.env import Array

F = TypeVar("F", bound=Callable[..., Any])

OWN_FILE = Path(__file__)
"""How all native code gets its arguments."""
integer = cast("type[int]", np.int64)
"""Bytes are converted to this before arithmetic: `int` would leave them bytes."""


def entry(function: F) -> F:
    """Return native code that Python calls; compiled once per machine."""
    return cast(F, numba.njit(nogil=True, cache=True, error_model="numpy")(function))


def kernel(function: F) -> F:
    """Return native code that is called by native code only.

    A wrapper for calls from Python would take as long to compile as the function itself.
    """
    # These two options work as any other but are missing in Numba's types.
    compile_inner = cast(Any, numba.njit)(
        nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
    )
    return cast(F, compile_inner(function))


def kernel_stamp(modules: Iterable[Path]) -> int:
    """Return a number that differs when the text of one of these modules does.

    Numba looks only at the file of the function it is asked for: constants and code from another
    file would stay as they were when first compiled. Functions that are kept compiled hold this
    number, which is part of their cache's key.
    """
    digest = hashlib.blake2b(digest_size=7)
    for module in (*modules, OWN_FILE):
        digest.update(module.read_bytes())
    return int.from_bytes(digest.digest(), "little")


WORD_BYTES = 8
ORDER = "seq_cst"
# Numba gives no types for it.
_find_or_declare = cast(Any, cgutils.get_or_insert_function)
HAS_PAUSE = platform.machine() in ("x86_64", "AMD64")
"""On other processors waiting needs no instruction."""


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(array.data, [arguments[1]])


def _type_load(typing_context: Any, board: Any, place: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        where = _place(context, builder, signature, arguments)
        return builder.load_atomic(where, ORDER, WORD_BYTES)

    return types.int64(board, types.int64), generate


def _type_store(typing_context: Any, board: Any, place: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        where = _place(context, builder, signature, arguments)
        builder.store_atomic(arguments[2], where, ORDER, WORD_BYTES)
        return context.get_dummy_value()

    return types.void(board, types.int64, types.int64), generate


def _type_add(typing_context: Any, board: Any, place: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        where = _place(context, builder, signature, arguments)
        return builder.atomic_rmw("add", where, arguments[2], ORDER)

    return types.int64(board, types.int64, types.int64), generate


def _type_pause(typing_context: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if HAS_PAUSE:
            kind = ir.FunctionType(ir.VoidType(), [])
            name = "llvm.x86.sse2.pause"
            builder.call(_find_or_declare(builder.module, kind, name), [])
        return context.get_dummy_value()

    return types.void(), generate


def _type_call(typing_context: Any, function: Any, words: Any, index: Any, member: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(WORD, [WORD, WORD, WORD])
        entrance = builder.inttoptr(arguments[0], kind.as_pointer())
        return builder.call(entrance, list(arguments[1:]))

    word = types.int64
    return word(word, word, word, word), generate


def _type_look(typing_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], WORD.as_pointer()))

    return types.int64(types.int64), generate


load = cast(Any, intrinsic(_type_load))
"""Return a word of the board, as the last thread left it."""
store = cast(Any, intrinsic(_type_store))
"""Write a word of the board."""
add = cast(Any, intrinsic(_type_add))
"""Add to a word of the board; return what it was."""
pause = cast(Any, intrinsic(_type_pause))
"""Hint the processor that this is a waiting loop."""
call = cast(Any, intrinsic(_type_call))
"""Call the native function at an address with three words; return its answer."""
look = cast(Any, intrinsic(_type_look))
"""Return the word at an address."""

CLOCK = int(time.CLOCK_MONOTONIC)
_number, _address = types.int32, types.intp
clock_gettime = cast(Any, types.ExternalFunction("clock_gettime", _number(_number, _address)))
mutex_init = cast(Any, types.ExternalFunction("pthread_mutex_init", _number(_address, _address)))
mutex_lock = cast(Any, types.ExternalFunction("pthread_mutex_lock", _number(_address)))
mutex_unlock = cast(Any, types.ExternalFunction("pthread_mutex_unlock", _number(_address)))
cond_init = cast(Any, types.ExternalFunction("pthread_cond_init", _number(_address, _address)))
cond_wait = cast(Any, types.ExternalFunction("pthread_cond_wait", _number(_address, _address)))
cond_wake = cast(Any, types.ExternalFunction("pthread_cond_broadcast", _number(_address)))


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
