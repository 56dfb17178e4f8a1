"""A small TOML writer for config snapshots; the standard library only reads TOML."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from longhaul.core.errors import ConfigError

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def write_toml(values: Mapping[str, Any]) -> str:
    """Return `values` as TOML; an entry that is None is left out, as TOML has no word for it."""
    lines: list[str] = []
    _write_table(values, (), lines)
    return "\n".join(lines).lstrip("\n") + "\n" if lines else ""


def _write_table(table: Mapping[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    """Append the plain entries of a table, then its tables, as TOML wants them in that order."""
    nested: list[tuple[str, Any]] = []
    for key, value in table.items():
        if not isinstance(key, str):
            raise ConfigError(f"config key {key!r} must be text to be written as TOML")
        if value is None:
            continue
        if isinstance(value, Mapping) or _is_table_array(value):
            nested.append((key, value))
        else:
            lines.append(f"{_key(key)} = {_value(value, (*path, key))}")
    for key, value in nested:
        inner = (*path, key)
        header = ".".join(_key(part) for part in inner)
        if isinstance(value, Mapping):
            lines += ["", f"[{header}]"]
            _write_table(value, inner, lines)
            continue
        for element in value:
            lines += ["", f"[[{header}]]"]
            _write_table(element, inner, lines)


def _is_table_array(value: object) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(isinstance(element, Mapping) for element in value)
    )


def _value(value: object, path: tuple[str, ...]) -> str:
    """Return one value on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return int.__repr__(value)
        case float():
            return _float(value)
        case str():
            return _string(value, path)
        case Mapping():
            entries = (
                f"{_key(key)} = {_value(element, (*path, key))}"
                for key, element in value.items()
                if element is not None
            )
            return "{" + ", ".join(entries) + "}"
        case Sequence() if not isinstance(value, (bytes, bytearray)):
            return "[" + ", ".join(_value(element, path) for element in value) + "]"
    raise ConfigError(
        f"{'.'.join(path)} = {value!r} cannot be written as TOML: it is a "
        f"{type(value).__name__}, not text, a number, a truth value, a list or a table"
    )


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float.__repr__(value)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _string(key, (key,))


def _string(text: str, path: tuple[str, ...]) -> str:
    """Return a basic string with everything escaped that TOML does not take literally."""
    pieces = []
    for letter in text:
        if letter in _SHORT_ESCAPES:
            pieces.append(_SHORT_ESCAPES[letter])
        elif letter < " " or letter == "\x7f":
            pieces.append(f"\\u{ord(letter):04x}")
        elif "\ud800" <= letter <= "\udfff":
            raise ConfigError(f"{'.'.join(path)!r} holds text that is not valid Unicode")
        else:
            pieces.append(letter)
    return '"' + "".join(pieces) + '"'
