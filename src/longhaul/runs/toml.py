"""Writing values as TOML; the standard library only reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tomli_w

from longhaul.core.errors import ConfigError


def write_toml(values: Mapping[str, Any]) -> str:
    """Return `values` as TOML without the entries that are None, which TOML cannot express."""
    text = tomli_w.dumps(_table(values, ()))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"the config holds text that is not valid Unicode: {error}") from None
    return text


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
