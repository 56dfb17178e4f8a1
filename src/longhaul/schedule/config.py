"""Controllers from config tables: `[[schedule]]` with a kind, a name and the kind's own fields."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from longhaul.core.config import field_types, flatten
from longhaul.core.control import UNKNOWN_LENGTH, Controller, RunLength
from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.metrics import Metric, setting_suggestion
from longhaul.core.plugins import find_plugin, plugin_names
from longhaul.core.settings import Assignment, Setting, Settings, SettingValue
from longhaul.schedule.adaptive import Adaptive, Nudge
from longhaul.schedule.gate import Gate
from longhaul.schedule.ladder import Ladder
from longhaul.schedule.metric_ramp import MetricRamp
from longhaul.schedule.phases import Phases
from longhaul.schedule.ramp import Ramp, share_axis
from longhaul.schedule.start_queue import StartQueue

KINDS: Mapping[str, type] = {
    "ramp": Ramp,
    "metric_ramp": MetricRamp,
    "nudge": Nudge,
    "adaptive": Adaptive,
    "gate": Gate,
    "phases": Phases,
    "ladder": Ladder,
    "start_queue": StartQueue,
}
"""Every built-in kind of controller by the name a table gives."""
GROUP = "longhaul.controllers"
"""The entry points by which other packages offer kinds."""
CONTROLLER_PARTS = ("name", "reads", "writes", "initial", "decide")

METRICS = (
    Metric("gate/<name>_stage", "the gate's stage, from 0"),
    Metric("gate/<name>_success_streak", "successes in a row that count towards the next stage"),
    Metric("gate/<name>_failure_streak", "failures in a row"),
    Metric("gate/<name>_freeze_until", "first iteration at which progress counts again"),
    Metric("gate/<name>_held", "evaluations since the stage last changed"),
    Metric("gate/<name>_blocked_by", "success criteria that did not hold"),
    Metric(
        "gate/<name>_missing/<metric>",
        "how far a metric that blocks the next stage is from its threshold",
    ),
    Metric("adaptive/<name>_mean", "mean of the last measurements that are to stay in the band"),
    Metric("adaptive/<name>_fading_mean", "their exponential average"),
    Metric("adaptive/<name>_scale", "what the line is multiplied with"),
    Metric("curriculum/<name>_phase", "number of the phase, from 1; 0 before the first"),
    Metric("starts/<name>_stage", "number of the queue's stage, from 1"),
    Metric("starts/<name>_stage_progress", "share of the stage that is over, from 0 to 1"),
    Metric("starts/<name>_remaining", "what is left of the queue, in its unit"),
    Metric("starts/<name>_remaining_ratio", "share of the whole queue that is left"),
    Metric("starts/<name>_laps", "how often the queue has begun again"),
    Metric("starts/<name>_low_hits", "observations in a row of a low remainder"),
    Metric("starts/<name>_warning", "1 while the queue is running low"),
    Metric("starts/<name>_warning_duration", "how long it has been so", "iterations"),
    Metric("starts/<name>_remaining_<category>", "what is left of one category"),
    Metric("starts/<name>_reentries_<category>", "how often a category has been entered again"),
)
"""What the built-in kinds measure; `<name>` is the controller's own name."""


def build_controllers(
    tables: Sequence[Mapping[str, object]], settings: Settings, *, run: RunLength = UNKNOWN_LENGTH
) -> tuple[Controller[Any], ...]:
    """Return the controllers the tables describe; `run` is the length in steps or episodes.

    A controller is its own config: settings are written by name, assignments as a table from
    setting to value, and everything else as the controller's fields are declared.
    """
    return tuple(
        _build_controller(table, settings, number=number, run=run)
        for number, table in enumerate(tables, start=1)
    )


def _build_controller(
    table: Mapping[str, object], settings: Settings, *, number: int, run: RunLength
) -> Controller[Any]:
    name = table.get("name")
    where = f"schedule.{name}" if isinstance(name, str) and name else f"schedule[{number}]"
    kind = table.get("kind")
    found = find_controller(kind, f"{where}.kind")
    values = {key: value for key, value in table.items() if key != "kind"}
    if _along(found, values) == "run" and "total" not in values:
        values |= {"along": share_axis(run), "total": run.total}
    controller: Controller[Any] = _build(found, values, settings, where)
    return controller


def find_controller(kind: object, where: str) -> type:
    """Return the class of a kind: a built-in one, an installed one or `module:Class`."""
    found = None
    if isinstance(kind, str):
        found = find_plugin(kind, group=GROUP, built_in=KINDS, where=where)
    if found is None:
        known = plugin_names(GROUP, KINDS)
        raise ConfigError(
            f"{where} is {'missing' if kind is None else repr(kind)}; the kinds are "
            f"{', '.join(known)}{suggestion(str(kind), known)}"
        )
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise ConfigError(
            f"{where} = {kind!r} is {found!r}, not a dataclass that controls settings"
        )
    offered = {*dir(found), *(field.name for field in dataclasses.fields(found))}
    if missing := [name for name in CONTROLLER_PARTS if name not in offered]:
        raise ConfigError(f"{where} = {kind!r}: {found.__name__} has no {missing[0]!r}")
    return found


def _along(kind: type, values: Mapping[str, object]) -> object:
    """Return the axis a table asks for or its kind has by default; None for a kind without one."""
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    return values.get("along", defaults.get("along"))


def _build(kind: type, values: object, settings: Settings, where: str) -> Any:
    """Return the dataclass `kind` made from a table."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where} is a table, not {values!r}")
    hints = field_types(kind)
    for key in values:
        if key not in hints:
            raise ConfigError(f"unknown config key '{where}.{key}'{suggestion(key, hints)}")
    for field in dataclasses.fields(kind):
        is_required = (
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        if is_required and field.name not in values:
            raise ConfigError(f"{where}.{field.name} is missing")
    fields = {
        key: _field(hints[key], value, settings, f"{where}.{key}") for key, value in values.items()
    }
    try:
        return kind(**fields)
    except ConfigError as error:
        text = str(error)
        raise ConfigError(text if text.startswith(where) else f"{where}: {text}") from error


def _field(hint: Any, value: object, settings: Settings, where: str) -> Any:
    """Return a table's value as the type the field declares."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union) and not _is_any_value(hint):
        # Every optional part of a controller is `X | None`, and TOML has no way to write None.
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    if typing.get_origin(hint) is Setting:
        return _setting(typing.get_args(hint)[0], value, settings, where)
    if hint == tuple[Assignment, ...]:
        return _assignments(value, settings, where)
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast(type, hint), value, settings, where)
    if typing.get_origin(hint) is tuple and typing.get_args(hint)[-1] is Ellipsis:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise ConfigError(f"{where} is a list, not {value!r}")
        inner = typing.get_args(hint)[0]
        return tuple(
            _field(inner, element, settings, f"{where}[{index}]")
            for index, element in enumerate(value)
        )
    if isinstance(hint, TypeVar) or _is_any_value(hint):
        return frozen(value, where)
    return _plain(hint, value, where)


def _is_any_value(hint: Any) -> bool:
    """Whether a type is that of any setting's value."""
    return {bool, int, float, str} <= set(typing.get_args(hint))


def _plain(hint: Any, value: object, where: str) -> Any:
    """Return a value of a type that knows nothing of settings."""
    choices = typing.get_args(hint)
    if typing.get_origin(hint) is Literal and value not in choices:
        raise ConfigError(
            f"{where} = {value!r} is none of {', '.join(map(repr, choices))}"
            f"{suggestion(str(value), choices)}"
        )
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at ")
        text = text.replace("`", "").replace("Expected", "expected")
        raise ConfigError(f"{where}{path.strip('`').removeprefix('$')}: {text}") from None


def _declared(name: object, settings: Settings, where: str) -> Setting[Any]:
    if not isinstance(name, str):
        raise ConfigError(f"{where} is the name of a setting, not {name!r}")
    if name not in settings:
        close = setting_suggestion(name, tuple(settings))
        raise ConfigError(f"{where}: setting {name!r} is not declared{close}")
    return settings.declaration(name)


def _setting(wanted: Any, name: object, settings: Settings, where: str) -> Setting[Any]:
    """Return the declared setting called `name`, which must hold what the controller writes."""
    declared = _declared(name, settings, where)
    holds = tuple if typing.get_origin(wanted) is tuple else wanted
    if isinstance(holds, type) and type(declared.default) is not holds:
        raise ConfigError(
            f"{where}: setting {name!r} holds {type(declared.default).__name__}, "
            f"and a setting that holds {holds.__name__} is needed"
        )
    return declared


def _assignments(value: object, settings: Settings, where: str) -> tuple[Assignment, ...]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} is a table from settings to values, not {value!r}")
    assignments = []
    # TOML reads an unquoted `a.b = 1` as a table in a table.
    for name, held in flatten(value).items():
        declared = _declared(name, settings, where)
        try:
            assignments.append(declared.to(declared.check(frozen(held, f"{where}.{name}"))))
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error
    return tuple(assignments)


def frozen(value: object, where: str) -> SettingValue:
    """Return a plain value as a setting holds it, lists as tuples."""
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(frozen(element, where) for element in value)
    raise ConfigError(f"{where}: a setting cannot hold {value!r}")
