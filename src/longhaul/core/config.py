"""Reading plain data into frozen dataclasses, with errors that name the key and the remedy."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import tomllib
import typing
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.metrics import key_suggestion

C = TypeVar("C")

LARGEST_TOML = 1 << 20
"""Characters; no config has a tenth of it."""
DEEPEST_NAME = 64
"""Parts of a dotted name. Reading one takes time by the square of its parts: 200,000, 69 s."""
_PART_OF_NAME = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_DEEP_NAME = re.compile(rf"(?:\.[ \t]*+{_PART_OF_NAME}[ \t]*+){{{DEEPEST_NAME}}}")


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML text; one made to take forever is refused as invalid."""
    if len(text) > LARGEST_TOML:
        raise tomllib.TOMLDecodeError(f"it has {len(text):,} characters; no config is that long")
    if found := _DEEP_NAME.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise tomllib.TOMLDecodeError(
            f"line {line} holds a name of more than {DEEPEST_NAME} parts; no config is that deep"
        )
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("its values are nested too deeply") from None


def convert(values: Mapping[str, Any], kind: type[C], *, where: str = "") -> C:
    """Return `values` as the dataclass `kind`; `where` is the path the user would write."""
    refuse_unknown_keys(values, kind, where=where)
    try:
        return msgspec.convert(_with_whole_numbers(values, kind, where), kind)
    except msgspec.ValidationError as error:
        cause = error.__cause__
        if isinstance(cause, ConfigError):
            raise cause from None
        raise ConfigError(_readable(str(error), kind, where)) from None


def _with_whole_numbers(value: Any, hint: Any, path: str) -> Any:
    """Return values with 1e6, which TOML reads as a fraction, as the integer a field wants."""
    if hint is int and isinstance(value, float):
        if not value.is_integer():
            raise ConfigError(f"{path} must be a whole number, not {value}")
        return int(value)
    if dataclasses.is_dataclass(hint):
        hints = field_types(typing.cast(type, hint))
        return {
            key: _with_whole_numbers(held, hints[key], f"{path}.{key}" if path else key)
            for key, held in value.items()
        }
    if element := _table_type(hint):
        return [_with_whole_numbers(held, element, path) for held in value]
    return value


def _table_type(hint: Any) -> type | None:
    """Return the dataclass that the tables of an array are, if a field holds such an array."""
    inner = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else None
    return inner if dataclasses.is_dataclass(inner) else None  # type: ignore[return-value]


def _readable(message: str, kind: type, where: str) -> str:
    """Turn msgspec's `Expected int - at $.learn.n_epochs` into `learn.n_epochs: expected int`."""
    text, _, path = message.replace("`", "").partition(" - at ")
    path = path.removeprefix("$").lstrip(".")
    if choices := _choices(kind, path):
        text = text.replace("Invalid enum value", "there is no choice")
        wrong = text.partition("'")[2].rpartition("'")[0]
        text += f"{suggestion(wrong, choices)} (choices: {', '.join(choices)})"
    key = ".".join(part for part in (where, path) if part)
    return f"{key}: {text[:1].lower()}{text[1:]}" if key else text


def _choices(kind: type, path: str) -> tuple[str, ...]:
    """Return what the field at `path` may be, if it is one of a few words."""
    inner: Any = kind
    for part in path.split("."):
        if not dataclasses.is_dataclass(inner):
            return ()
        name, bracket, _ = part.partition("[")
        inner = field_types(typing.cast(type, inner)).get(name)
        inner = typing.get_args(inner)[0] if bracket and typing.get_args(inner) else inner
    if typing.get_origin(inner) is not typing.Literal:
        return ()
    return tuple(map(str, typing.get_args(inner)))


def refuse_unknown_keys(
    values: Mapping[str, Any], kind: type, *, where: str = "", everywhere: Collection[str] = ()
) -> None:
    """Raise for the first key, at any depth, that `kind` does not declare."""
    known = field_types(kind)
    everywhere = everywhere or key_paths(kind, where=where)
    for key, value in values.items():
        path = f"{where}.{key}" if where else key
        if key not in known:
            paths = [f"{where}.{name}" if where else name for name in known]
            raise ConfigError(
                f"unknown config key {path!r}{key_suggestion(path, paths, everywhere)}"
            )
        inner, tables = known[key], [value]
        if element := _table_type(inner):
            inner, tables = element, value
            if not isinstance(value, (list, tuple)):
                raise ConfigError(f"{path} is an array of tables, not {value!r}")
        if dataclasses.is_dataclass(inner):
            for table in tables:
                if not isinstance(table, Mapping):
                    raise ConfigError(f"{path} is a table of settings, not {table!r}")
                inner = typing.cast(type, inner)
                refuse_unknown_keys(table, inner, where=path, everywhere=everywhere)


def key_paths(kind: type, *, where: str = "") -> tuple[str, ...]:
    """Return every key a dataclass and those in it declare, tables included."""
    paths: list[str] = []
    for name, inner in field_types(kind).items():
        paths.append(f"{where}.{name}" if where else name)
        if dataclasses.is_dataclass(inner):
            paths += key_paths(typing.cast(type, inner), where=paths[-1])
    return tuple(paths)


def field_types(kind: type) -> dict[str, Any]:
    """Return the resolved type of each field of a dataclass."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the values of `over` put on top, table by table."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = merge(below, value)
        else:
            merged[key] = value
    return merged


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested tables as one flat mapping with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{path}.")
        else:
            flat[path] = value
    return flat


def unflatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by dotted key as nested tables."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        for part in reversed(key.split(".")):
            value = {part: value}
        found = merge(found, value)
    return found


def value_words(value: object) -> str:
    """Return a value as TOML writes it; one that is absent is nothing."""
    if value is None:
        return "nothing"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(value_words, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {value_words(held)}" for key, held in value.items()) + "}"
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return str(value) if isinstance(value, Path) else json.dumps(value)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The values a number may have, in words too."""

    words: str
    low: float
    high: float = math.inf


AT_LEAST_0 = Bounds("at least 0", low=0)
AT_LEAST_1 = Bounds("at least 1", low=1)
AT_LEAST_2 = Bounds("at least 2", low=2)
ABOVE_0 = Bounds("above 0", low=math.ulp(0.0))
SHARE = Bounds("between 0 and 1", low=0, high=1)
PART = Bounds("above 0 and at most 1", low=math.ulp(0.0), high=1)

Ranges = Mapping[Bounds, str]
"""For each range the names of the fields that lie in it."""


def check_ranges(config: object, where: str, ranges: Ranges, *, finite: bool = False) -> None:
    """Refuse the first number of a config, or in one of its tuples, that is out of its range.

    `where` is the table of the config; with `finite`, floats without a range must be finite too.
    """
    by_name = {name: one for one, names in ranges.items() for name in names.split()}
    for field in dataclasses.fields(typing.cast(Any, config)):
        found, allowed = getattr(config, field.name), by_name.get(field.name)
        named = {field.name: found}
        if isinstance(found, tuple):
            named = {f"{field.name}[{place}]": value for place, value in enumerate(found)}
        for name, value in named.items():
            is_odd = finite and isinstance(value, float) and not math.isfinite(value)
            if is_odd or (allowed is not None and not allowed.low <= value <= allowed.high):
                words = ["a finite number" if is_odd else "", allowed.words if allowed else ""]
                wanted = " ".join(filter(None, words))
                raise ConfigError(f"{where}.{name} = {value!r} must be {wanted}")
