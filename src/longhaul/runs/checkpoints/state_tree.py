"""State trees as JSON plus safetensors: reading it cannot run code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors

from longhaul.core.errors import CheckpointError
from longhaul.core.state import State
from longhaul.runs.checkpoints import manifest as exact_json

_TENSOR_KINDS: dict[torch.dtype, str] = {
    torch.float64: "F64",
    torch.int64: "I64",
    torch.uint64: "U64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.uint32: "U32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int16: "I16",
    torch.uint16: "U16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_ARRAY_KINDS: dict[str, str] = {
    "float64": "F64",
    "int64": "I64",
    "uint64": "U64",
    "float32": "F32",
    "int32": "I32",
    "uint32": "U32",
    "float16": "F16",
    "int16": "I16",
    "uint16": "U16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}


@dataclass(frozen=True, slots=True)
class FlatArray:
    """An array's kind, shape and raw bytes in the order of safetensors."""

    kind: str
    shape: tuple[int, ...]
    content: memoryview

    @property
    def item_bytes(self) -> int:
        """Bytes per element, by the number in the kind's name."""
        return {"BOOL": 1}.get(self.kind) or int(self.kind.lstrip("BFIU")) // 8


@dataclass(frozen=True, slots=True)
class SplitState:
    """A state as JSON values that refer by name to arrays."""

    tree: Any
    arrays: dict[str, FlatArray]

    @property
    def nbytes(self) -> int:
        """Size of all arrays together."""
        return sum(array.content.nbytes for array in self.arrays.values())


def split_state(state: State, where: str) -> SplitState:
    """Take the arrays out of a state; `where` names it in errors."""
    if not isinstance(state, dict):
        raise CheckpointError(f"the state of {where} is a {type(state).__name__}, not a dict")
    arrays: dict[str, FlatArray] = {}

    def place(value: object, path: str) -> dict[str, str]:
        if isinstance(value, torch.Tensor):
            tag, array = "$tensor", _flatten_tensor(value, path)
        elif isinstance(value, np.ndarray):
            tag, array = "$array", _flatten_array(value, path)
        elif type(value) is bytes:
            tag, array = "$bytes", FlatArray("U8", (len(value),), memoryview(value))
        else:
            exact_json.refuse(value, path)
        name = path.removeprefix(f"{where}/")
        # Keys may hold slashes, so two paths can be equal; the name __metadata__ is reserved.
        while name in arrays or name == "__metadata__":
            name += "'"
        arrays[name] = array
        return {tag: name}

    return SplitState(exact_json.encode(state, where, place), arrays)


def _flatten_tensor(tensor: torch.Tensor, where: str) -> FlatArray:
    if tensor.layout != torch.strided or tensor.dtype not in _TENSOR_KINDS:
        raise CheckpointError(
            f"{where} is a tensor of {tensor.dtype}, {tensor.layout}, which cannot be saved; "
            f"use dense tensors of {', '.join(str(dtype)[6:] for dtype in _TENSOR_KINDS)}"
        )
    flat = tensor.detach().resolve_neg().cpu().contiguous().reshape(-1)
    # Tensors of at most one element count as contiguous with any stride; bytes need stride 1.
    plain = flat.as_strided(flat.shape, (1,)).view(torch.uint8)
    return FlatArray(_TENSOR_KINDS[tensor.dtype], tuple(tensor.shape), _bytes(plain.numpy()))


def _flatten_array(array: np.ndarray[Any, Any], where: str) -> FlatArray:
    if array.dtype.name not in _ARRAY_KINDS or type(array) is not np.ndarray:
        raise CheckpointError(
            f"{where} is a {type(array).__name__} of {array.dtype}, which cannot be saved; use "
            f"plain arrays of {', '.join(_ARRAY_KINDS)}"
        )
    plain = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
    return FlatArray(
        _ARRAY_KINDS[array.dtype.name], array.shape, _bytes(plain.reshape(-1).view(np.uint8))
    )


def _bytes(array: np.ndarray[Any, Any]) -> memoryview:
    return array.data if array.size else memoryview(b"")


def safetensors_chunks(arrays: dict[str, FlatArray]) -> Iterator[bytes | memoryview]:
    """Yield a safetensors file piece by piece, without copying the arrays.

    Wide elements come first, which keeps all of them aligned, then names in order; the bytes
    depend only on the arrays.
    """
    ordered = sorted(arrays.items(), key=lambda named: (-named[1].item_bytes, named[0]))
    header: dict[str, Any] = {}
    begin = 0
    for name, array in ordered:
        end = begin + array.content.nbytes
        header[name] = {
            "dtype": array.kind,
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little")
    yield text
    for _, array in ordered:
        yield array.content


def parse_safetensors(content: bytes) -> dict[str, torch.Tensor]:
    """Return the tensors in a safetensors file; raises ValueError if it is invalid."""
    try:
        loaded: dict[str, torch.Tensor] = load_safetensors(content)
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"not safetensors: {error}") from error
    return loaded


def join_state(tree: Any, arrays: dict[str, torch.Tensor]) -> State:
    """Put arrays back into their places; raises ValueError if they do not match."""
    left = dict(arrays)

    def fetch(tag: str, name: str) -> Any:
        if name not in left:
            raise ValueError(f"array {name!r} is missing")
        tensor = left.pop(name)
        match tag:
            case "$tensor":
                return tensor
            case "$array":
                return tensor.numpy()
            case "$bytes":
                return tensor.numpy().tobytes()
        raise ValueError(f"unknown tag {tag!r}")

    state = exact_json.decode(tree, fetch)
    if left:
        raise ValueError(f"array {next(iter(left))!r} is not used")
    if not isinstance(state, dict):
        raise ValueError("a state must be a dict")
    return state
