"""From presets, files, flags and `--set` to one checked configuration."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from longhaul.app.build.config import (
    FREE_TO_CHANGE,
    RunConfig,
    overlay,
    refuse_overwritten,
    with_starts,
)
from longhaul.app.build.sb3_config import from_sb3, is_sb3
from longhaul.core.config import convert, flatten, merge, parse_toml, unflatten, value_words
from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.plugins import load_entry
from longhaul.learn.config import config_class, foreign_keys
from longhaul.runs.durable import read_small
from longhaul.tasks.kind import TaskKind

GROUP = "longhaul.tasks"


@dataclass(frozen=True, slots=True)
class Reference:
    """A task name as the user writes it."""

    kind: str
    argument: str

    @staticmethod
    def parse(text: str) -> Reference:
        """Split `kind:argument`."""
        kind, _, argument = text.partition(":")
        return Reference(kind, argument)


def task_names() -> tuple[str, ...]:
    """Return the names of all installed task kinds."""
    return tuple(sorted({entry.name for entry in importlib.metadata.entry_points(group=GROUP)}))


def find_kind(task: str) -> TaskKind:
    """Return the kind of a task; raise with suggestions if there is none."""
    name = Reference.parse(task).kind
    entries = _entries(importlib.metadata.entry_points, tuple(sys.path), name)
    if not entries:
        known = ", ".join(task_names())
        argument = task.partition(":")[2]
        close = suggestion(
            task, [f"{known}:{argument}" if argument else known for known in task_names()]
        )
        if not argument and name[:1].isupper():
            close = f"; did you mean 'gym:{task}'?"
        raise ConfigError(f"unknown task {task!r}{close} (tasks: {known})")
    kind = load_entry(next(iter(entries)), f"task {name!r}")
    if not isinstance(kind, TaskKind):
        raise ConfigError(f"the plugin that offers task {name!r} does not export a TaskKind")
    return kind


@functools.lru_cache(maxsize=64)
def _entries(find: Callable[..., Any], path: tuple[str, ...], name: str) -> tuple[Any, ...]:
    """Return the entry points of a name, cached: searching all packages takes 10 ms."""
    return tuple(find(group=GROUP, name=name))


DEFAULT_TIMESTEPS = next(
    one.default for one in dataclasses.fields(RunConfig) if one.name == "total_timesteps"
)

DEFAULT_ALGORITHM = RunConfig("").learn.algorithm


@dataclasses.dataclass(frozen=True, slots=True)
class ConfigSources:
    """The sources of a config; later fields override earlier ones."""

    task: str
    preset: str = ""
    file: Path | None = None
    flags: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    overrides: Sequence[str] = ()
    tried: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Values that a search tries."""
    base: Path | None = None
    """A run's config, which takes the place of the preset."""

    def __post_init__(self) -> None:
        if self.base is not None and (self.preset or self.file is not None):
            raise ConfigError(
                "a run that continues another one has its config; leave out --preset and "
                "--config, and change keys with --set"
            )

    def layers(self) -> tuple[dict[str, Any], ...]:
        """Return the values of each source except the preset, in order."""
        set_by_hand: dict[str, Any] = {}
        for override in self.overrides:
            set_by_hand = merge(set_by_hand, parse_override(override))
        return (
            self._file_values(),
            {key: value for key, value in self.flags.items() if value is not None},
            set_by_hand,
            dict(self.tried),
        )

    def _file_values(self) -> dict[str, Any]:
        values = read_toml(self.file) if self.file is not None else {}
        return from_sb3(values) if is_sb3(values) else values


def resolve(sources: ConfigSources) -> RunConfig:
    """Return the configuration made of all sources.

    A value for a setting that a controller writes scales the controller or is refused.
    """
    kind = find_kind(sources.task)
    kind.check_argument(Reference.parse(sources.task).argument)
    preset = (
        read_toml(sources.base)
        if sources.base is not None
        else read_preset(kind, sources.task, sources.preset)
    )
    values, given = preset, dict[str, Any]()
    for layer in sources.layers():
        values = put_on(values, layer, sources.task)
        given = merge(given, layer)
    named = values.get("task", sources.task)
    if named != sources.task:
        raise ConfigError(
            f"the config is for task {value_words(named)}, not {sources.task!r}; use the "
            "same task in both, or remove it from the config"
        )
    config = from_values({**values, "task": sources.task})
    refuse_two_lengths(config, sources, preset)
    refuse_idle_keys(config, sources)
    own = flatten(to_values(from_values({**preset, "task": sources.task})))
    held = flatten(to_values(config))
    refuse_overwritten(
        config, [key for key in flatten(given) if held.get(key) != own.get(key)], kind
    )
    return config


def refuse_two_lengths(
    config: RunConfig, sources: ConfigSources, preset: Mapping[str, Any]
) -> None:
    """Raise if a number of steps is given for a run whose length is counted otherwise."""
    if config.length.unit == "steps":
        return
    file, *by_hand = sources.layers()
    # A stored config holds both; the unused one has the preset's value.
    idle = (DEFAULT_TIMESTEPS, preset.get("total_timesteps"))
    is_given = any("total_timesteps" in layer for layer in by_hand)
    if is_given or file.get("total_timesteps", DEFAULT_TIMESTEPS) not in idle:
        refuse_timesteps(config)


def refuse_idle_keys(config: RunConfig, sources: ConfigSources) -> None:
    """Raise if the user sets a key of another learner; presets and stored configs may hold it."""
    _, flags, set_by_hand, _ = sources.layers()
    foreign = foreign_keys(type(config.learn))
    for key in merge(flags, set_by_hand).get("learn", {}):
        if key in foreign:
            raise ConfigError(
                f"learn.{key} would have no effect: learn.algorithm = {config.learn.algorithm!r} "
                "does not use it"
            )


def refuse_timesteps(config: RunConfig) -> None:
    """Raise: a number of steps has no effect on a run whose length is counted otherwise."""
    key, total = config.length.key, config.length.total
    raise ConfigError(
        f"total_timesteps would have no effect: the length of the run is {key} = {total}; change "
        f"that, or set {key}=0 to count steps"
    )


def put_on(values: Mapping[str, Any], layer: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return a config's values updated by a layer; a ramp is scaled with the key it starts at."""
    defaults = flatten(to_values(from_values({"task": task})))
    return overlay(values, layer, defaults, find_kind(task))


def from_values(values: Mapping[str, Any]) -> RunConfig:
    """Return plain values as a checked configuration, with the task's options filled in."""
    config = _converted(values)
    kind = find_kind(config.task)
    options = convert(config.options, kind.options, where="options")
    config = dataclasses.replace(config, options=msgspec.to_builtins(options))
    schedule = with_starts(config.schedule, flatten(to_values(config)), kind)
    return dataclasses.replace(config, schedule=schedule)


def _converted(values: Mapping[str, Any]) -> RunConfig:
    """Return plain values as a configuration whose `learn` has the chosen learner's class."""
    learn = values.get("learn", {})
    if not isinstance(learn, Mapping):
        return convert(values, RunConfig)
    kind = config_class(str(learn.get("algorithm", DEFAULT_ALGORITHM)))
    foreign = foreign_keys(kind)
    own = {key: value for key, value in learn.items() if key not in foreign}
    found = convert({**values, "learn": own} if learn else values, _run_config(kind))  # type: ignore[arg-type]  # a class
    fields = dataclasses.fields(RunConfig)
    return RunConfig(**{field.name: getattr(found, field.name) for field in fields})


@functools.cache
def _run_config(learn: type) -> type[RunConfig]:
    """Return a config class whose `learn` has the chosen learner's class, for conversion."""
    own = ("learn", learn, dataclasses.field(default_factory=learn))
    return dataclasses.make_dataclass("RunConfig", [own], bases=(RunConfig,), frozen=True)


def to_values(config: RunConfig) -> dict[str, Any]:
    """Return a configuration as plain values; the inverse of `from_values`."""
    values = msgspec.to_builtins(config)
    assert isinstance(values, dict)
    return values


def preset_name(kind: TaskKind, task: str, preset: str) -> str:
    """Return the named preset, else the one named like the argument, else the default; or none."""
    names = kind.preset_names()
    if preset:
        if preset not in names:
            raise ConfigError(
                f"task {kind.name!r} has no preset {preset!r}{suggestion(preset, names)}"
                f" (presets: {', '.join(names) or 'none'})"
            )
        return preset
    argument = Reference.parse(task).argument
    return next((name for name in (argument, kind.default_preset) if name in names), "")


def read_preset(kind: TaskKind, task: str, preset: str) -> dict[str, Any]:
    """Return the values of the preset that `preset_name` finds."""
    name = preset_name(kind, task, preset)
    return read_toml(kind.presets / f"{name}.toml") if name else {}


def read_toml(path: Path) -> dict[str, Any]:
    """Return the values of a TOML file."""
    try:
        return parse_toml(read_small(path).decode())
    except FileNotFoundError:
        raise ConfigError(f"config file {str(path)!r} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"config file {str(path)!r} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"config file {str(path)!r} is not valid TOML: {error}") from None


def config_of(path: Path) -> Path:
    """Return the config in a folder, or that of the run a checkpoint is in."""
    name = "config.toml"
    for folder in (path, path.resolve().parent.parent):
        if (folder / name).is_file():
            return folder / name
    raise ConfigError(f"{path} is not a run directory: it has no {name}")


def parse_override(text: str) -> dict[str, Any]:
    """Return `a.b=value` as nested tables; a value that is not valid TOML is text."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set takes key=value, not {text!r}")
    try:
        parsed: Any = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
    return unflatten({key.strip(): parsed})


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], *, ignore: Sequence[str] = FREE_TO_CHANGE
) -> dict[str, tuple[Any, Any]]:
    """Return the keys whose values differ, with both values, except ignored ones.

    If the learner changed, keys of the old learner do not count: `learn.algorithm` does.
    """
    before, after = flatten(old), flatten(new)
    if before.get("learn.algorithm") != after.get("learn.algorithm"):
        before = {
            key: value
            for key, value in before.items()
            if key in after or not key.startswith("learn.")
        }
    return {
        key: (before.get(key), after.get(key))
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
        and not any(key == name or key.startswith(f"{name}.") for name in ignore)
    }
