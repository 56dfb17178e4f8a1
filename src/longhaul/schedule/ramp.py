"""A setting that follows a curve over the run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol, assert_never

from longhaul.core.control import Decision, NoState, Progress, RunLength, Stateless, View, WritesOne
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Assignment, Setting

Axis = Literal["env_steps", "iterations", "episodes", "run", "run_episodes"]
"""Counted work, or a share of the whole run from 0 to 1: `run` of its env steps, `run_episodes` of
its episodes. `run` stands for `run_episodes` if the run's length is in episodes."""
SHARES = ("run", "run_episodes")


def position(progress: Progress, along: Axis, total: int) -> float:
    """Return how far the run has come along an axis; only shares of the run use `total`."""
    match along:
        case "env_steps":
            return progress.env_steps
        case "iterations":
            return progress.iteration
        case "episodes":
            return progress.episodes
        case "run":
            return min(1.0, progress.env_steps / total)
        case "run_episodes":
            return min(1.0, progress.episodes / total)
        case _:
            assert_never(along)


def check_axis(name: str, along: Axis, total: int) -> None:
    """Refuse a share of a run whose length is unknown."""
    if along in SHARES and total < 1:
        raise ConfigError(
            f"schedule.{name} runs along = {along!r}, so it needs total, the run's "
            f"{'env steps' if along == 'run' else 'episodes'}; total = {total}"
        )


def share_axis(length: RunLength) -> Axis:
    """Return the axis along which shares of a run of this length are counted."""
    return "run_episodes" if length.unit == "episodes" else "run"


def between(start: float, end: float, share: float) -> float:
    """Return the value `share` of the way: exactly `end` at 1, and never outside by rounding."""
    if share >= 1.0:
        return end
    lower, upper = min(start, end), max(start, end)
    return min(max(start + (end - start) * share, lower), upper)


def words(along: Axis, place: float) -> str:
    """Return a position as text."""
    match along:
        case "env_steps":
            return f"env step {place:.0f}"
        case "iterations":
            return f"iteration {place:.0f}"
        case "episodes":
            return f"episode {place:.0f}"
        case "run" | "run_episodes":
            return f"{place:.1%} of the run"
        case _:
            assert_never(along)


class _HasStart(Protocol):
    @property
    def setting(self) -> Setting[float]: ...
    @property
    def start(self) -> float | None: ...


class WritesFromStart(WritesOne):
    """A controller that leads its setting from `start`, its config value if that is left out."""

    __slots__ = ()

    @property
    def first(self: _HasStart) -> float:
        """The value it begins at."""
        return self.setting.default if self.start is None else self.start

    @property
    def follows(self: _HasStart) -> tuple[str, ...]:
        """The setting, if it begins at its config value."""
        return (self.setting.name,) if self.start in (None, self.setting.default) else ()


@dataclass(frozen=True, slots=True)
class Ramp(Stateless, WritesFromStart):
    """Anneal one setting from `start` to `end` along the run, after an optional warm-up."""

    name: str
    """The controller's unique name."""
    setting: Setting[float]
    """The setting to anneal."""
    start: float | None = None
    """The value at the beginning, or once the warm-up is over; the config value of the setting if
    left out."""
    end: float = 0.0
    """The value at `finish` and after it."""
    shape: Literal["linear", "cosine", "constant"] = "linear"
    """The curve from `start` to `end`; `constant` stays at `start`."""
    along: Axis = "run"
    """What `warm_up` and `finish` are counted in."""
    finish: float = 1.0
    """Where `end` is reached."""
    warm_up: float = 0.0
    """Where the warm-up ends and the curve begins; 0 means no warm-up."""
    start_factor: float = 0.0
    """The warm-up leads in a straight line from `start_factor * start` to `start`."""
    total: int = 0
    """Length of the whole run, needed along `run`; the run's own length if left out."""

    def __post_init__(self) -> None:
        check_axis(self.name, self.along, self.total)
        if not 0 <= self.warm_up < self.finish:
            raise ConfigError(
                f"schedule.{self.name} needs 0 <= warm_up < finish, not "
                f"warm_up = {self.warm_up}, finish = {self.finish}"
            )

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """The outermost values it may assign."""
        values = {self.first}
        if self.shape != "constant":
            values.add(self.end)
        if self.warm_up > 0:
            values.add(self.first * self.start_factor)
        return tuple(self.setting.to(value) for value in sorted(values))

    def value_at(self, progress: Progress) -> float:
        """Return the setting's value once the run has come this far."""
        place = position(progress, self.along, self.total)
        if place < self.warm_up:
            return between(self.first * self.start_factor, self.first, place / self.warm_up)
        if self.shape == "constant":
            return self.first
        share = min(1.0, (place - self.warm_up) / (self.finish - self.warm_up))
        if self.shape == "cosine":
            share = (1 - math.cos(math.pi * share)) / 2
        return between(self.first, self.end, share)

    def decide(self, state: NoState, view: View) -> Decision[NoState]:
        """Put the setting on the curve."""
        value = self.value_at(view.progress)
        if view.settings[self.setting] == value:
            return Decision(state)
        place = position(view.progress, self.along, self.total)
        phase = "warm-up" if place < self.warm_up else f"{self.shape} ramp"
        return Decision(state, (self.setting.to(value),), f"{phase} at {words(self.along, place)}")
