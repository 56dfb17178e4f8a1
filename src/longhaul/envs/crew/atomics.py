"""What threads agree by: words of a board that are read and changed in one go."""

from __future__ import annotations

import platform
import time
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

WORD = ir.IntType(64)
WORD_BYTES = 8
ORDER = "seq_cst"
# Numba gives no types for it.
_find_or_declare = cast(Any, cgutils.get_or_insert_function)
HAS_PAUSE = platform.machine() in ("x86_64", "AMD64")
"""Other processors wait without being told."""


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
"""Tell the processor that this is a loop that waits."""
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
