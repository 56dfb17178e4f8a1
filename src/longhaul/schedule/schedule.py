"""The controllers of a run, consulted in order after every iteration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import msgspec

from longhaul.core.control import Controller, Progress, View
from longhaul.core.errors import CheckpointError, ConfigError, suggestion
from longhaul.core.metrics import Metrics, setting_suggestion
from longhaul.core.settings import Assignment, Settings, SettingValue

FORMAT = 1
CHANGE_EVENT = "schedule"


@runtime_checkable
class Emits(Protocol):
    """A controller that declares the metrics of its decisions."""

    @property
    def emits(self) -> tuple[str, ...]:
        """Names of the metrics; later controllers may read them in the same iteration."""


@runtime_checkable
class Bounded(Protocol):
    """A controller that declares the limits of its settings."""

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """The outermost values it may assign, checked before the run begins."""


@runtime_checkable
class Follows(Protocol):
    """A controller that uses the config value of a setting it writes."""

    @property
    def follows(self) -> tuple[str, ...]:
        """Names of the settings whose config value decides what it writes."""


@dataclass(frozen=True, slots=True)
class Move:
    """One setting's old and new value."""

    setting: str
    old: SettingValue
    new: SettingValue


@dataclass(frozen=True, slots=True)
class Change:
    """What one controller decided in one iteration and why; without moves it only explains."""

    controller: str
    moves: tuple[Move, ...]
    why: str

    def as_row(self) -> dict[str, Any]:
        """Return the change as plain values for the run's events."""
        return {"event": CHANGE_EVENT, **_plain(msgspec.to_builtins(self))}


class Schedule:
    """Runs the controllers in order, owns and saves their states, and checks them first."""

    def __init__(self, controllers: Sequence[Controller[Any]], settings: Settings) -> None:
        self._controllers = tuple(controllers)
        self._settings = settings
        self._metrics: Metrics = {}
        _check_names(self._controllers)
        _check_settings(self._controllers, settings)
        _check_writers(self._controllers)
        _check_order(self._controllers)
        _check_extremes(self._controllers, settings)
        self._states: dict[str, Any] = {c.name: c.initial() for c in self._controllers}

    @property
    def controllers(self) -> tuple[Controller[Any], ...]:
        """The controllers in the order they decide."""
        return self._controllers

    @property
    def settings(self) -> Settings:
        """The settings the schedule was made for, as they stand before the run begins."""
        return self._settings

    @property
    def writers(self) -> dict[str, str]:
        """The name of the controller that writes each setting."""
        return {setting: one.name for one in self.controllers for setting in one.writes}

    @property
    def metrics(self) -> Metrics:
        """What the controllers measured in the last step, for the recorder."""
        return self._metrics

    @property
    def emits(self) -> frozenset[str]:
        """Names of all metrics the controllers may bring."""
        return frozenset(name for c in self._controllers for name in _emitted(c))

    def unmeasured(self, known: Iterable[str]) -> tuple[str, ...]:
        """Return a sentence for every metric that is read but is not among the known ones."""
        names = {*known, *self.emits, *self._settings}
        return tuple(
            f"schedule.{controller.name} reads {name!r}, which nothing measures"
            f"{suggestion(name, sorted(names))}"
            for controller in self._controllers
            for name in controller.reads
            if name not in names
        )

    def begin(self, settings: Settings) -> tuple[Settings, tuple[Change, ...]]:
        """Return the settings the first iteration runs with, for a run without a checkpoint."""
        return self.step(View(Progress(), {}, settings))

    def step(self, view: View) -> tuple[Settings, tuple[Change, ...]]:
        """Return the next iteration's settings and what was decided, with reasons.

        Each controller sees the settings and metrics as the ones before it leave them.
        """
        settings, changes, emitted = view.settings, [], dict[str, float]()
        for controller in self._controllers:
            seen = View(view.progress, {**view.metrics, **emitted}, settings)
            decision = controller.decide(self._states[controller.name], seen)
            self._states[controller.name] = decision.state
            emitted.update(decision.metrics)
            after = _apply(controller, decision.assignments, settings)
            moves = _moves(decision.assignments, settings, after)
            if moves or decision.why:
                changes.append(Change(controller.name, moves, decision.why))
            settings = after
        self._metrics = emitted
        return settings, tuple(changes)

    def state_dict(self) -> dict[str, Any]:
        """Return every controller's state as plain JSON values."""
        return {
            "format": FORMAT,
            "controllers": [
                {
                    "name": controller.name,
                    "kind": type(controller).__name__,
                    "state": _plain(msgspec.to_builtins(self._states[controller.name])),
                }
                for controller in self._controllers
            ],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the states of the same controllers, saved earlier."""
        saved = _saved_controllers(state)
        found = [f"{kind} {name!r}" for name, kind, _ in saved]
        wanted = [f"{type(c).__name__} {c.name!r}" for c in self._controllers]
        if found != wanted:
            raise CheckpointError(
                f"the checkpoint's schedule is [{', '.join(found)}], this run's is "
                f"[{', '.join(wanted)}]; resume with the schedule the run was started with"
            )
        self._states = {
            controller.name: _restored(controller, values)
            for controller, (_, _, values) in zip(self._controllers, saved, strict=True)
        }
        self._metrics = {}


def _emitted(controller: Controller[Any]) -> tuple[str, ...]:
    return controller.emits if isinstance(controller, Emits) else ()


def _check_names(controllers: Iterable[Controller[Any]]) -> None:
    seen: set[str] = set()
    for controller in controllers:
        if not re.fullmatch(r"[\w-]+", controller.name):
            raise ConfigError(
                f"invalid controller name {controller.name!r}: it becomes part of metric names and "
                "may contain only letters, digits, _ and -"
            )
        if controller.name in seen:
            raise ConfigError(f"two controllers are called {controller.name!r}; rename one")
        seen.add(controller.name)


def _check_settings(controllers: Iterable[Controller[Any]], settings: Settings) -> None:
    """Refuse an unknown setting; a metric may be unknown, and only metrics have a slash."""
    for controller in controllers:
        read = [("reads", name) for name in controller.reads if "/" not in name]
        for verb, name in (*read, *(("writes", name) for name in controller.writes)):
            if name not in settings:
                raise ConfigError(
                    f"schedule.{controller.name} {verb} {name!r}, which nothing declares"
                    f"{setting_suggestion(name, tuple(settings))}"
                )


def _check_writers(controllers: Iterable[Controller[Any]]) -> None:
    writers: dict[str, str] = {}
    for controller in controllers:
        for name in (*controller.writes, *_emitted(controller)):
            if name in writers:
                raise ConfigError(
                    f"schedule.{writers[name]} and schedule.{controller.name} both write {name!r}; "
                    "remove one of them"
                )
            writers[name] = controller.name


def _check_order(controllers: Sequence[Controller[Any]]) -> None:
    """Refuse a controller that reads what a later one, or it itself, writes."""
    later: dict[str, str] = {}
    for controller in reversed(controllers):
        for name in (*controller.writes, *_emitted(controller)):
            later[name] = controller.name
        for name in controller.reads:
            if name in later:
                raise ConfigError(
                    f"schedule.{controller.name} reads {name!r}, which schedule.{later[name]} "
                    f"writes; put {later[name]!r} before {controller.name!r}"
                    if later[name] != controller.name
                    else f"schedule.{controller.name} reads {name!r}, which it writes itself"
                )


def _check_extremes(controllers: Iterable[Controller[Any]], settings: Settings) -> None:
    for controller in controllers:
        if isinstance(controller, Bounded):
            _apply(controller, controller.extremes, settings)


def _apply(
    controller: Controller[Any], assignments: Iterable[Assignment], settings: Settings
) -> Settings:
    assignments = tuple(assignments)
    for assignment in assignments:
        if assignment.name not in controller.writes:
            raise ConfigError(
                f"schedule.{controller.name} assigns {assignment.name!r}, which is not among the "
                f"settings it says it writes: {', '.join(controller.writes)}"
            )
        try:
            settings.declaration(assignment.name).check(assignment.value)
        except ConfigError as error:
            raise ConfigError(f"schedule.{controller.name}: {error}") from error
    return settings.with_(assignments)


def _moves(
    assignments: Iterable[Assignment], before: Settings, after: Settings
) -> tuple[Move, ...]:
    old, new = before.values(), after.values()
    names = dict.fromkeys(assignment.name for assignment in assignments)
    return tuple(Move(name, old[name], new[name]) for name in names if old[name] != new[name])


def _saved_controllers(state: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    if state.get("format") != FORMAT:
        raise CheckpointError(
            f"the checkpoint's schedule has format {state.get('format')!r}; "
            f"this version reads format {FORMAT}"
        )
    try:
        return [(saved["name"], saved["kind"], saved["state"]) for saved in state["controllers"]]
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"the checkpoint's schedule is damaged: {error!r}") from error


def _restored(controller: Controller[Any], values: Any) -> Any:
    """Return a saved state as the controller's type; refuse unknown and missing fields."""
    where = f"the checkpoint's state of schedule.{controller.name}"
    try:
        state = msgspec.convert(values, type(controller.initial()))
    except msgspec.ValidationError as error:
        raise CheckpointError(f"{where} cannot be read: {error}") from error
    if _plain(msgspec.to_builtins(state)) != _plain(values):
        raise CheckpointError(
            f"{where} has fields this version does not know or lacks some it does"
        )
    return state


def _plain(value: Any) -> Any:
    """Return builtin values as JSON would bring them back, tuples as lists."""
    if isinstance(value, dict):
        return {key: _plain(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    return value
