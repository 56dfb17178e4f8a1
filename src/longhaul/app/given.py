"""Values a user gives for settings that controllers write: they move the controller or are refused.

A setting begins with the value of a config key. A controller that writes the setting before the
first iteration would overwrite that value, and a value without effect must never pass unnoticed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from longhaul.app.config import RunConfig
from longhaul.core.config import flatten, merge
from longhaul.core.control import Controller
from longhaul.core.errors import ConfigError
from longhaul.core.toml_words import value_words
from longhaul.learn.settings import CONFIG_KEYS
from longhaul.schedule.schedule import Follows
from longhaul.tasks.kind import TaskKind

BEGINNING = ("ramp", "adaptive")
"""Kinds of controllers that begin at the config value of their setting unless told otherwise."""


def setting_keys(kind: TaskKind) -> dict[str, str]:
    """Return, for each setting that begins with a value of the config, the key of that value."""
    return {**CONFIG_KEYS, **kind.setting_keys}


def with_starts(
    tables: tuple[dict[str, Any], ...], held: Mapping[str, Any], kind: TaskKind
) -> tuple[dict[str, Any], ...]:
    """Return the schedule with the starts that were left out; `held` is the flat config."""
    keys = setting_keys(kind)
    return tuple(
        {**table, "start": held[keys[table["setting"]]]}
        if table.get("kind") in BEGINNING and table.get("setting") in keys and "start" not in table
        else table
        for table in tables
    )


def overlay(
    values: Mapping[str, Any], layer: Mapping[str, Any], defaults: Mapping[str, Any], kind: TaskKind
) -> dict[str, Any]:
    """Return `values` with a layer on top, and what begins at a changed key moved along.

    `defaults` is the flat config without any value given.
    """
    merged = merge(values, layer)
    tables = values.get("schedule")
    if "schedule" in layer or not isinstance(tables, (list, tuple)):
        return merged
    before, given, keys = {**defaults, **flatten(values)}, flatten(layer), setting_keys(kind)
    merged["schedule"] = [
        _moved(table, before[key], given[key])
        if isinstance(table, Mapping) and (key := keys.get(str(table.get("setting")))) in given
        else table
        for table in tables
    ]
    return merged


def _moved(table: Mapping[str, Any], before: object, after: object) -> dict[str, Any]:
    """Return a controller's table with start and end in the ratio of the two values."""
    begins_there = table.get("kind") in BEGINNING and table.get("start", before) == before
    if not begins_there or not _is_number(before) or not _is_number(after):
        return dict(table)
    moved = {**table, "start": after}
    if _is_number(table.get("end")) and before:
        moved["end"] = table["end"] * (after / before)  # type: ignore[operator]  # both are numbers
    return moved


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def refuse_overwritten(config: RunConfig, given: Collection[str], kind: TaskKind) -> None:
    """Raise if a controller overwrites the value of a given key before the first iteration."""
    asked = {name: key for name, key in setting_keys(kind).items() if key in given}
    if not asked or not (config.schedule or kind.controller_keys):
        return
    # Imported here, because building a task takes seconds, and most values need none.
    from longhaul.app.assemble import build_schedule, build_settings, build_task
    from longhaul.app.env_output import env_output

    with env_output():
        task = build_task(config)
    settings = build_settings(config, task)
    schedule = build_schedule(config, task, settings)
    wanted, first = settings.values(), schedule.begin(settings)[0].values()
    for controller in schedule.controllers:
        follows = controller.follows if isinstance(controller, Follows) else ()
        for name in controller.writes:
            if name in asked and name not in follows and first[name] != wanted[name]:
                what = f"{asked[name]} = {value_words(wanted[name])} would have no effect"
                raise ConfigError(f"{what}: {_instead(controller, name, first[name], kind)}")


def _instead(controller: Controller[Any], name: str, first: object, kind: TaskKind) -> str:
    """Return who sets the setting, and what to change in place of its config key."""
    value = f"{first:g}" if isinstance(first, float) else value_words(first)
    sets = f"sets {name} to {value} before the first iteration"
    if own := kind.controller_keys.get(controller.name):
        return f"the controller {controller.name!r} of {own} {sets}; change {own} instead"
    change = "remove its start" if isinstance(controller, Follows) else "change that controller"
    return (
        f"schedule.{controller.name} {sets}; {change}, leave the key out, or switch off all "
        "schedules with --set schedule=[]"
    )
