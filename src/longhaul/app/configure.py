"""From presets, files, flags and `--set` to one checked configuration."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from longhaul.app.config import FREE_TO_CHANGE, RunConfig
from longhaul.app.registry import Reference, find_kind
from longhaul.core.config import convert, merge
from longhaul.core.errors import ConfigError, suggestion
from longhaul.tasks.kind import TaskKind


@dataclasses.dataclass(frozen=True, slots=True)
class ConfigSources:
    """Where values come from; later fields win over earlier ones."""

    task: str
    preset: str = ""
    file: Path | None = None
    flags: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    overrides: Sequence[str] = ()


def resolve(sources: ConfigSources) -> RunConfig:
    """Return the configuration the sources add up to."""
    kind = find_kind(sources.task)
    values = read_preset(kind, sources.task, sources.preset)
    if sources.file is not None:
        values = merge(values, read_toml(sources.file))
    values = merge(
        values, {key: value for key, value in sources.flags.items() if value is not None}
    )
    for override in sources.overrides:
        values = merge(values, parse_override(override))
    values["task"] = sources.task
    return from_values(values)


def from_values(values: Mapping[str, Any]) -> RunConfig:
    """Return plain values as a checked configuration, the task's options filled in."""
    config = convert(values, RunConfig)
    kind = find_kind(config.task)
    options = convert(config.options, kind.options, where="options")
    return dataclasses.replace(config, options=msgspec.to_builtins(options))


def to_values(config: RunConfig) -> dict[str, Any]:
    """Return a configuration as plain values that `from_values` takes back."""
    values = msgspec.to_builtins(config)
    assert isinstance(values, dict)
    return values


def read_preset(kind: TaskKind, task: str, preset: str) -> dict[str, Any]:
    """Return the named preset, or the one made for this task, or the kind's default."""
    names = kind.preset_names()
    if preset:
        if preset not in names:
            raise ConfigError(
                f"task {kind.name!r} has no preset {preset!r}{suggestion(preset, names)}"
                f" (presets: {', '.join(names) or 'none'})"
            )
        return read_toml(kind.presets / f"{preset}.toml")
    argument = Reference.parse(task).argument
    for name in (argument, kind.default_preset):
        if name and name in names:
            return read_toml(kind.presets / f"{name}.toml")
    return {}


def read_toml(path: Path) -> dict[str, Any]:
    """Return the values of a TOML file."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"config file {str(path)!r} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"config file {str(path)!r} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"config file {str(path)!r} is not valid TOML: {error}") from None


def parse_override(text: str) -> dict[str, Any]:
    """Return `a.b=value` as nested tables; the value is TOML, or else plain text."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set takes key=value, not {text!r}")
    try:
        parsed: Any = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
    for part in reversed(key.strip().split(".")):
        parsed = {part: parsed}
    assert isinstance(parsed, dict)
    return parsed


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


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], *, ignore: Sequence[str] = FREE_TO_CHANGE
) -> dict[str, tuple[Any, Any]]:
    """Return the keys whose values differ, with both values, apart from the ignored ones."""
    before, after = flatten(old), flatten(new)
    return {
        key: (before.get(key), after.get(key))
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
        and not any(key == name or key.startswith(f"{name}.") for name in ignore)
    }
