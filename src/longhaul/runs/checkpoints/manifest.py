"""The manifest of a checkpoint, sealed by its own hash, and JSON that is exact."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

import msgspec

from longhaul.core.control import Progress
from longhaul.core.errors import CheckpointError
from longhaul.runs.durable import Digest
from longhaul.runs.logs.jsonl import LogMark

FORMAT = 2
KIND = "longhaul checkpoint"


class DamagedError(CheckpointError):
    """A checkpoint differs from what was written; an older one may be used instead."""


class ForeignError(CheckpointError):
    """A checkpoint is intact but belongs to another task or config."""


@dataclass(frozen=True, slots=True)
class CheckpointScore:
    """The value of the metric by which checkpoints are ranked."""

    metric: str
    value: float


@dataclass(frozen=True, slots=True)
class Stamp:
    """What is the same for every checkpoint of a process."""

    identity: Mapping[str, str]
    """Must be equal in a checkpoint and in the run that loads it: task, digest of the config."""
    versions: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    """Shown to readers and not compared: the environment's tier, the device."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything about a checkpoint except the state itself."""

    progress: Progress
    settings: dict[str, Any]  # setting values by name; `Settings` checks them when they are used
    identity: dict[str, str]
    versions: dict[str, str]
    facts: dict[str, str]
    parts: dict[str, Digest]  # by file name
    logs: dict[str, LogMark]  # by file name
    created: str
    score: CheckpointScore | None = None


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the manifest as JSON that ends with its own hash."""
    body = asdict(manifest)
    body["settings"] = encode(manifest.settings, "settings")
    return _seal({"kind": KIND, "format": FORMAT, **body})


def _seal(body: dict[str, Any]) -> bytes:
    digest = hashlib.sha256(dumps(body)).hexdigest()
    return dumps({**body, "manifest_sha256": digest})


def decode_manifest(content: bytes) -> Manifest:
    """Return the manifest, or raise `DamagedError` or `ForeignError` with a reason."""
    try:
        body = loads(content)
    except ValueError as error:
        raise DamagedError(f"manifest.json is not JSON: {error}") from error
    if not isinstance(body, dict) or body.pop("manifest_sha256", None) is None:
        raise DamagedError("manifest.json is not a longhaul manifest")
    try:
        # Sealing again gives the same bytes only if none has changed.
        if _seal(body) != content:
            raise DamagedError("manifest.json does not match its own hash")
    except RecursionError as error:
        raise DamagedError("manifest.json is nested too deeply") from error
    if (body.pop("kind", None), body.pop("format", None)) != (KIND, FORMAT):
        raise ForeignError(
            f"its format is not {FORMAT}, the one this version of longhaul reads; use the version "
            "that wrote it"
        )
    try:
        body["settings"] = _tuples(decode(body.get("settings")))
        return msgspec.convert(body, Manifest)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise DamagedError(f"manifest.json has a wrong entry: {error}") from error


def _tuples(value: Any) -> Any:
    """Return lists as tuples, which settings hold; JSON has only lists."""
    if isinstance(value, list):
        return tuple(_tuples(element) for element in value)
    if isinstance(value, dict):
        return {key: _tuples(element) for key, element in value.items()}
    return value


_DEEPEST = 200
# Python refuses to print integers of more than 4300 decimal digits; hexadecimal has no limit.
_PLAIN_BITS = 4096

WriteLeaf = Callable[[object, str], Any]
"""Returns the JSON for a value that is not plain, given the place where it is."""
ReadLeaf = Callable[[str, Any], Any]
"""Returns the value for a tag and its content."""


def refuse(value: object, where: str) -> NoReturn:
    """Raise that a value cannot be saved."""
    raise CheckpointError(
        f"{where} is a {type(value).__module__}.{type(value).__qualname__}, which cannot be "
        "saved; use dicts with text keys, lists, None, bool, int, float, str, bytes, NumPy "
        "arrays and tensors"
    )


def encode(value: object, where: str, leaf: WriteLeaf = refuse, depth: int = 0) -> Any:
    """Return JSON values for a tree; what JSON lacks becomes an object with one `$tag`."""
    if depth > _DEEPEST:
        raise CheckpointError(f"{where} is nested too deeply to be saved, or contains itself")
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        return _text(value, where)
    if kind is int:
        return _integer(value)
    if kind is float:
        return _number(value)
    if isinstance(value, dict):
        return {
            _escape(key, where): encode(element, f"{where}/{key}", leaf, depth + 1)
            for key, element in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [
            encode(element, f"{where}/{index}", leaf, depth + 1)
            for index, element in enumerate(value)
        ]
    return leaf(value, where)


def _text(value: Any, where: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise CheckpointError(f"{where} holds text that is not valid Unicode") from None
    return str(value)


def _integer(value: Any) -> Any:
    return value if value.bit_length() <= _PLAIN_BITS else {"$int": hex(value)}


def _number(value: Any) -> Any:
    return value if math.isfinite(value) else {"$float": struct.pack(">d", value).hex()}


def _escape(key: object, where: str) -> str:
    """Return the key with one more `$` in front if it begins with one."""
    if type(key) is not str:
        raise CheckpointError(f"{where} has the key {key!r}; keys must be text to be saved")
    text = _text(key, where)
    return "$" + text if text.startswith("$") else text


def _unknown(tag: str, content: object) -> NoReturn:
    raise ValueError(f"unknown tag {tag!r}")


def decode(value: Any, leaf: ReadLeaf = _unknown) -> Any:
    """Return the tree that `encode` was given; raises ValueError for what it never writes."""
    if isinstance(value, list):
        return [decode(element, leaf) for element in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((key, content),) = value.items()
        if key.startswith("$") and not key.startswith("$$"):
            return _untag(key, content, leaf)
    return {
        (key[1:] if key.startswith("$") else key): decode(element, leaf)
        for key, element in value.items()
    }


def _untag(tag: str, content: Any, leaf: ReadLeaf) -> Any:
    if not isinstance(content, str):
        raise ValueError(f"tag {tag!r} without text")
    if tag == "$int":
        return int(content, 16)
    if tag == "$float":
        bits = bytes.fromhex(content)
        if len(bits) != 8:
            raise ValueError(f"{content!r} is not 64 bits")
        return struct.unpack(">d", bits)[0]
    return leaf(tag, content)


def dumps(value: object) -> bytes:
    """Return encoded values as bytes that depend only on them."""
    return json.dumps(value, allow_nan=False, indent=1).encode() + b"\n"


def loads(content: bytes) -> Any:
    """Return the values in `content`; raises ValueError for anything but strict JSON."""
    try:
        return json.loads(content, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
