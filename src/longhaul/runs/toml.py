"""Writing values as TOML; the standard library only reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tomli_w

from longhaul.core.errors import ConfigError

LONGEST_LINE = 100


def write_toml(values: Mapping[str, Any]) -> str:
    """Return `values` as TOML without the entries that are None, which TOML cannot express."""
    text = compact(tomli_w.dumps(_table(values, ())))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"the config holds text that is not valid Unicode: {error}") from None
    return text


def compact(text: str) -> str:
    """Return TOML with arrays on one line where they fit; tomli-w writes one element a line."""
    lines: list[str] = []
    opened: list[int] = []  # places of the lines that open an array
    for line in text.split("\n"):
        lines.append(line)
        end = line.strip()
        if end.startswith("]"):
            start = opened.pop()
            elements = [part.strip().removesuffix(",") for part in lines[start + 1 : -1]]
            joined = f"{lines[start]}{', '.join(elements)}{end}"
            has_open_array = any(part.endswith("[") for part in (*elements, end))
            if not has_open_array and len(joined) <= LONGEST_LINE:
                lines[start:] = [joined]
        if line.endswith("["):
            opened.append(len(lines) - 1)
    return "\n".join(lines)


def _table(values: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    for key in values:
        if not isinstance(key, str):
            raise ConfigError(f"config key {key!r} must be text to be written as TOML")
    return {key: _value(value, (*path, key)) for key, value in values.items() if value is not None}


def _value(value: object, path: tuple[str, ...]) -> object:
    match value:
        case Mapping():
            return _table(value, path)
        case list() | tuple():
            return [_value(element, path) for element in value]
        case int() | float() | str():
            return value
    raise ConfigError(
        f"{'.'.join(path)} = {value!r} cannot be written as TOML: it is a "
        f"{type(value).__name__}, not text, a number, a boolean, a list or a table"
    )
