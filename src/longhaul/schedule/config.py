"""Controllers from config tables: `[[schedule]]` with a kind, a name and the kind's own fields."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from longhaul.core.config import field_types
from longhaul.core.control import Controller
from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.foreign_names import setting_suggestion
from longhaul.core.settings import Assignment, Setting, Settings, SettingValue
from longhaul.schedule.adaptive import Adaptive
from longhaul.schedule.gate import Gate
from longhaul.schedule.ladder import Ladder
from longhaul.schedule.nudge import Nudge
from longhaul.schedule.phases import Phases
from longhaul.schedule.ramp import Ramp
from longhaul.schedule.start_queue import StartQueue

KINDS: Mapping[str, type] = {
    "ramp": Ramp,
    "nudge": Nudge,
    "adaptive": Adaptive,
    "gate": Gate,
    "phases": Phases,
    "ladder": Ladder,
    "start_queue": StartQueue,
}
"""Every kind of controller by the name a table gives."""


def build_controllers(
    tables: Sequence[Mapping[str, object]], settings: Settings, *, run_steps: int | None = None
) -> tuple[Controller[Any], ...]:
    """Return the controllers the tables describe; `run_steps` is the length of the whole run.

    A controller is its own config: settings are written by name, assignments as a table from
    setting to value, and everything else as the controller's fields are declared.
    """
    return tuple(
        _build_controller(table, settings, number=number, run_steps=run_steps)
        for number, table in enumerate(tables, start=1)
    )


def _build_controller(
    table: Mapping[str, object], settings: Settings, *, number: int, run_steps: int | None
) -> Controller[Any]:
    name = table.get("name")
    where = f"schedule.{name}" if isinstance(name, str) and name else f"schedule[{number}]"
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ConfigError(
            f"{where}.kind is {'missing' if kind is None else repr(kind)}; the kinds are "
            f"{', '.join(KINDS)}{suggestion(str(kind), KINDS)}"
        )
    values = {key: value for key, value in table.items() if key != "kind"}
    if _along(KINDS[kind], values) == "run":
        values.setdefault("total", run_steps or 0)
    controller: Controller[Any] = _build(KINDS[kind], values, settings, where)
    return controller


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
    for name, held in _flat(value):
        declared = _declared(name, settings, where)
        try:
            assignments.append(declared.to(declared.check(frozen(held, f"{where}.{name}"))))
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error
    return tuple(assignments)


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterable[tuple[str, object]]:
    """Yield dotted names and values: TOML reads an unquoted `a.b = 1` as a table in a table."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def frozen(value: object, where: str) -> SettingValue:
    """Return a plain value as a setting holds it, lists as tuples."""
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(frozen(element, where) for element in value)
    raise ConfigError(f"{where}: a setting cannot hold {value!r}")
