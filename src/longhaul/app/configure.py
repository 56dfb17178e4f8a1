"""From presets, files, flags and `--set` to one checked configuration."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from longhaul.app.config import FREE_TO_CHANGE, RunConfig
from longhaul.app.given import overlay, refuse_overwritten, with_starts
from longhaul.app.registry import Reference, find_kind
from longhaul.core.config import convert, flatten, merge
from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.toml_words import value_words
from longhaul.tasks.kind import TaskKind

DEFAULT_TIMESTEPS = next(
    one.default for one in dataclasses.fields(RunConfig) if one.name == "total_timesteps"
)


@dataclasses.dataclass(frozen=True, slots=True)
class ConfigSources:
    """Where values come from; later fields win over earlier ones."""

    task: str
    preset: str = ""
    file: Path | None = None
    flags: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    overrides: Sequence[str] = ()
    tried: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Values of a trial of a search."""

    def layers(self) -> tuple[dict[str, Any], ...]:
        """Return the values of each source but the preset, the earlier ones first."""
        set_by_hand: dict[str, Any] = {}
        for override in self.overrides:
            set_by_hand = merge(set_by_hand, parse_override(override))
        return (
            read_toml(self.file) if self.file is not None else {},
            {key: value for key, value in self.flags.items() if value is not None},
            set_by_hand,
            dict(self.tried),
        )


def resolve(sources: ConfigSources) -> RunConfig:
    """Return the configuration the sources add up to.

    A value given for a setting that a controller writes moves the controller or is refused.
    """
    kind = find_kind(sources.task)
    kind.check_argument(Reference.parse(sources.task).argument)
    preset = read_preset(kind, sources.task, sources.preset)
    values, given = preset, dict[str, Any]()
    for layer in sources.layers():
        values = put_on(values, layer, sources.task)
        given = merge(given, layer)
    if given.get("task", sources.task) != sources.task:
        raise ConfigError(
            f"the config is for task {value_words(given['task'])}, and {sources.task!r} is to be "
            "trained; name the same task in both, or leave it out of the config"
        )
    config = from_values({**values, "task": sources.task})
    refuse_two_lengths(config, sources, preset)
    own = flatten(to_values(from_values({**preset, "task": sources.task})))
    held = flatten(to_values(config))
    refuse_overwritten(
        config, [key for key in flatten(given) if held.get(key) != own.get(key)], kind
    )
    return config


def refuse_two_lengths(
    config: RunConfig, sources: ConfigSources, preset: Mapping[str, Any]
) -> None:
    """Raise if a number of steps is given for a run that is counted in iterations."""
    if not config.total_iterations:
        return
    file, *by_hand = sources.layers()
    # A stored config holds both; the one that does not count is as the preset left it.
    idle = (DEFAULT_TIMESTEPS, preset.get("total_timesteps"))
    is_given = any("total_timesteps" in layer for layer in by_hand)
    if is_given or file.get("total_timesteps", DEFAULT_TIMESTEPS) not in idle:
        refuse_timesteps(config)


def refuse_timesteps(config: RunConfig) -> None:
    """Raise that a number of steps has no effect on a run that is counted in iterations."""
    raise ConfigError(
        f"total_timesteps would have no effect: total_iterations = {config.total_iterations} is "
        "how long the run is; change that instead, or set total_iterations=0 to count steps"
    )


def put_on(values: Mapping[str, Any], layer: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return a config's values with others on top; a ramp moves with the key it begins at."""
    defaults = flatten(to_values(from_values({"task": task})))
    return overlay(values, layer, defaults, find_kind(task))


def from_values(values: Mapping[str, Any]) -> RunConfig:
    """Return plain values as a checked configuration, the task's options filled in."""
    config = convert(values, RunConfig)
    kind = find_kind(config.task)
    options = convert(config.options, kind.options, where="options")
    config = dataclasses.replace(config, options=msgspec.to_builtins(options))
    schedule = with_starts(config.schedule, flatten(to_values(config)), kind)
    return dataclasses.replace(config, schedule=schedule)


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
