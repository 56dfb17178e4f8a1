"""States of single environments as bytes, for starts and for archives."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import numpy as np

from longhaul.core.state import State


def pack_state(state: State) -> bytes:
    """Return a state as bytes; equal states give equal bytes. Tensors are not taken."""
    return _PACKER.encode(_packable(state))


def unpack_state(packed: bytes) -> State:
    """Undo `pack_state`."""
    state: State = _UNPACKER.decode(packed)
    return state


_ARRAY, _LONG = 1, 2
_LENGTH = struct.Struct("<B")


def _packable(value: Any) -> Any:
    """Return a value with arrays and long whole numbers in a form that can be packed."""
    if isinstance(value, dict):
        return {key: _packable(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [_packable(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        head = msgspec.msgpack.encode([value.dtype.str, list(value.shape)])
        content = np.ascontiguousarray(value).tobytes()
        return msgspec.msgpack.Ext(_ARRAY, _LENGTH.pack(len(head)) + head + content)
    if type(value) is int and value.bit_length() > 63:
        return msgspec.msgpack.Ext(_LONG, str(value).encode())
    return value


def _unpack_ext(code: int, content: memoryview) -> Any:
    if code == _LONG:
        return int(bytes(content))
    (length,) = _LENGTH.unpack_from(content)
    kind, shape = msgspec.msgpack.decode(content[1 : 1 + length])
    return np.frombuffer(content[1 + length :], np.dtype(kind)).reshape(shape).copy()


_PACKER = msgspec.msgpack.Encoder()
_UNPACKER = msgspec.msgpack.Decoder(ext_hook=_unpack_ext)
