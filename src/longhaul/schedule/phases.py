"""A run in named phases, each with its own values of several settings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from longhaul.core.control import Decision, NoState, Stateless, View
from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.settings import Assignment, SettingValue
from longhaul.schedule.criterion import Limit
from longhaul.schedule.ramp import Axis, between, check_axis, position, words


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of the run that begins at `start` and ends where the next phase begins."""

    name: str
    """The phase's name."""
    start: float
    """Where the phase begins."""
    assign: tuple[Assignment, ...] = ()
    """Values taken at once when the phase begins; they stay until a later phase changes them."""
    move: tuple[Assignment, ...] = ()
    """Values reached in a straight line, from `assign` of this phase or from the phase before."""
    hold: float = 0.0
    """How long to wait in the phase before `move` sets out."""
    over: float = 0.0
    """How long `move` takes; 0 means until the phase ends."""

    def move_length(self, end: float) -> float:
        """Return how long `move` takes in a phase that ends at `end`."""
        return self.over or end - self.start - self.hold


@dataclass(frozen=True, slots=True)
class Phases(Stateless):
    """Give several settings the values of the phase the run is in."""

    name: str
    """The controller's unique name."""
    phases: tuple[Phase, ...]
    """The phases in order of their start."""
    along: Axis = "env_steps"
    """What the phases are counted in."""
    total: int = 0
    """Length of the whole run, needed along `run`; the run's own length if left out."""
    scale: float = 1.0
    """Factor of every start and length; a short run can then see all phases."""
    only: str = ""
    """The name of a phase to stay in for the whole run, at its final values."""
    limit: Limit | None = None
    """A cap on the phase's index; a phase above it is replaced by the capped one's final values."""

    def __post_init__(self) -> None:
        check_axis(self.name, self.along, self.total)
        if not self.phases:
            raise ConfigError(f"schedule.{self.name} has no phases")
        if not self.scale > 0:
            raise ConfigError(f"schedule.{self.name}.scale = {self.scale} is not above 0")
        names = [phase.name for phase in self.phases]
        if self.only and self.only not in names:
            raise ConfigError(
                f"schedule.{self.name}.only = {self.only!r} names no phase"
                f"{suggestion(self.only, names)}"
            )
        for earlier, later in pairwise(self.phases):
            if not earlier.start < later.start:
                raise ConfigError(
                    f"schedule.{self.name}: phase {later.name!r} starts at {later.start}, not "
                    f"after {earlier.name!r}, which starts at {earlier.start}"
                )
        for fault in self._faulty_moves():
            raise ConfigError(f"schedule.{self.name}: {fault}")

    def _faulty_moves(self) -> Iterator[str]:
        known: set[str] = set()
        for index, phase in enumerate(self.phases):
            known.update(assignment.name for assignment in phase.assign)
            for goal in phase.move:
                if goal.name not in known:
                    yield (
                        f"phase {phase.name!r} moves {goal.name!r} from an unknown value; "
                        "assign it in the same or an earlier phase"
                    )
                if type(goal.value) is not float:
                    yield f"phase {phase.name!r} moves {goal.name!r}, which is not a float"
            known.update(goal.name for goal in phase.move)
            length = phase.move_length(self._end(index))
            room = self._end(index) - phase.start - phase.hold
            if phase.move and not 0 < length < math.inf:
                yield f"phase {phase.name!r} moves, but neither `over` nor a next phase ends it"
            if phase.move and (phase.hold < 0 or length > room):
                yield f"phase {phase.name!r} ends before its hold and move are over"

    def _end(self, index: int) -> float:
        return self.phases[index + 1].start if index + 1 < len(self.phases) else math.inf

    @property
    def reads(self) -> tuple[str, ...]:
        """The setting that caps the phase."""
        return () if self.limit is None else (self.limit.setting.name,)

    @property
    def writes(self) -> tuple[str, ...]:
        """Every setting that any phase touches."""
        return tuple(dict.fromkeys(assignment.name for assignment in self.extremes))

    @property
    def emits(self) -> tuple[str, ...]:
        """The number of the phase, from 1; 0 before the first."""
        return (f"curriculum/{self.name}_phase",)

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """The outermost values it may assign."""
        return tuple(
            assignment for phase in self.phases for assignment in (*phase.assign, *phase.move)
        )

    def decide(self, state: NoState, view: View) -> Decision[NoState]:
        """Give every touched setting its value at this point of the run."""
        index, place = self._where(view)
        values = self._values(index, place)
        present = view.settings.values()
        changed = tuple(
            Assignment(name, value) for name, value in values.items() if present[name] != value
        )
        metrics = dict.fromkeys(self.emits, float(index + 1))
        if not changed:
            return Decision(state, metrics=metrics)
        here = words(self.along, position(view.progress, self.along, self.total))
        return Decision(state, changed, f"phase {self.phases[index].name!r} at {here}", metrics)

    def _where(self, view: View) -> tuple[int, float]:
        """Return the index of the phase in force and the place in it, in unscaled units."""
        if self.only:
            return [phase.name for phase in self.phases].index(self.only), math.inf
        place = position(view.progress, self.along, self.total) / self.scale
        index = sum(phase.start <= place for phase in self.phases) - 1
        if self.limit is not None:
            highest = self.limit.highest(view.settings, top=len(self.phases) - 1)
            if index > highest:
                return highest, math.inf
        return index, place

    def _values(self, index: int, place: float) -> dict[str, SettingValue]:
        values: dict[str, SettingValue] = {}
        for number, phase in enumerate(self.phases[: index + 1]):
            values.update((assignment.name, assignment.value) for assignment in phase.assign)
            begin = phase.start + phase.hold
            length = phase.move_length(self._end(number))
            is_past = number < index or place >= begin + length
            share = 1.0 if is_past else max(0.0, (place - begin) / length)
            for goal in phase.move:
                before = values[goal.name]
                assert isinstance(before, (int, float))
                assert isinstance(goal.value, float)
                values[goal.name] = between(before, goal.value, share)
        return values
