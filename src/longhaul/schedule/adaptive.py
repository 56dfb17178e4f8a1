"""Settings that follow a metric, alone or on top of a line along the run.

Two controllers cannot write one setting. `Adaptive` combines both: its value is always
`line x scale`, and the line can wait while the metric is outside its band.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from longhaul.core.config import ABOVE_0, AT_LEAST_0, AT_LEAST_1, PART, check_ranges
from longhaul.core.control import Decision, View, WritesOne
from longhaul.core.errors import ConfigError
from longhaul.core.metrics import Metrics
from longhaul.core.settings import Assignment, Setting
from longhaul.schedule.ramp import Axis, WritesFromStart, between, check_axis, position


def _check_intervals(name: str, **intervals: tuple[float, float]) -> None:
    for field, (low, high) in intervals.items():
        if low > high:
            raise ConfigError(
                f"schedule.{name}.{field} = [{low}, {high}] has its lower end above its upper end"
            )


@dataclass(frozen=True, slots=True)
class AdaptiveState:
    """The scale, what was measured, and how far along its line the value is."""

    scale: float = 1.0
    recent: tuple[float, ...] = ()
    average: float | None = None  # exponential
    waited: float = 0.0  # part of the run in which the line stood still
    last_place: float = 0.0
    moved_at: int = -1  # iteration of the last change of the scale


@dataclass(frozen=True, slots=True)
class Adaptive(WritesFromStart):
    """Anneal a setting along the run, and scale it while a metric leaves its band."""

    name: str
    """The controller's unique name."""
    setting: Setting[float]
    """The setting, which is always the line's value times the scale."""
    metric: str
    """The metric that is to stay in the band."""
    band: tuple[float, float]
    """The lowest and highest average at which the scale is left alone."""
    limits: tuple[float, float]
    """The smallest and largest scale; a low metric moves the scale towards the largest."""
    start: float | None = None
    """The line's value at the beginning; the config value of the setting if left out."""
    end: float | None = None
    """The line's value at `finish` and after it; `start` if left out."""
    along: Axis = "run"
    """What `finish` is counted in."""
    finish: float = 1.0
    """Where `end` is reached."""
    rate: float = 0.05
    """The share of the remaining way the scale covers at each measurement."""
    window: int = 50
    """How many measurements are averaged."""
    average: Literal["window", "exponential"] = "window"
    """Which average decides: of the last `window` measurements, or one in which they fade."""
    cooldown: int = 0
    """Iterations between two changes of the scale."""
    line_waits: bool = False
    """Whether the line stands still while the metric is outside its band."""
    total: int = 0
    """Length of the whole run, needed along `run`; the run's own length if left out."""

    def __post_init__(self) -> None:
        check_axis(self.name, self.along, self.total)
        _check_intervals(self.name, band=self.band, limits=self.limits)
        if not (0 <= self.limits[0] <= 1 <= self.limits[1]):
            raise ConfigError(
                f"schedule.{self.name}.limits = {list(self.limits)} must hold 1, where the scale "
                "begins, and nothing below 0"
            )
        ranges = {PART: "rate", AT_LEAST_1: "window", AT_LEAST_0: "cooldown", ABOVE_0: "finish"}
        check_ranges(self, f"schedule.{self.name}", ranges)

    @property
    def reads(self) -> tuple[str, ...]:
        """The metric that is to stay in the band."""
        return (self.metric,)

    @property
    def emits(self) -> tuple[str, ...]:
        """Both averages, and the scale."""
        return tuple(f"adaptive/{self.name}_{part}" for part in ("mean", "fading_mean", "scale"))

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """The outermost values it may assign."""
        ends = (self.first, self.first if self.end is None else self.end)
        values = {end * scale for end in ends for scale in self.limits}
        return tuple(self.setting.to(value) for value in sorted(values))

    def initial(self) -> AdaptiveState:
        """Return the state with a scale of 1."""
        return AdaptiveState()

    def decide(self, state: AdaptiveState, view: View) -> Decision[AdaptiveState]:
        """Move the scale if the average left the band, and put the setting on line x scale."""
        place = position(view.progress, self.along, self.total)
        mean, state = self._measured(state, view)
        goal = self._goal(mean)
        waited = state.waited
        if goal is not None and self.line_waits:
            waited += max(place - state.last_place, 0.0)
        scale, moved_at = state.scale, state.moved_at
        iteration = view.progress.iteration
        rested = moved_at < 0 or iteration - moved_at > self.cooldown
        if goal is not None and rested and self.metric in view.metrics:
            scale = between(scale, goal, self.rate)
            moved_at = iteration if scale != state.scale else moved_at
        state = AdaptiveState(scale, state.recent, state.average, waited, place, moved_at)
        value = self.value_at(place - waited) * scale
        metrics = self._metrics(state)
        if view.settings[self.setting] == value:
            return Decision(state, metrics=metrics)
        return Decision(state, (self.setting.to(value),), f"line x {scale:.3g}", metrics)

    def _metrics(self, state: AdaptiveState) -> Metrics:
        mean, fading, scale = self.emits
        if not state.recent or state.average is None:
            return {scale: state.scale}
        within = sum(state.recent) / len(state.recent)
        return {mean: within, fading: state.average, scale: state.scale}

    def value_at(self, place: float) -> float:
        """Return the line's value at a place."""
        if self.end is None:
            return self.first
        return between(self.first, self.end, min(max(place / self.finish, 0.0), 1.0))

    def _measured(self, state: AdaptiveState, view: View) -> tuple[float | None, AdaptiveState]:
        """Return the average that decides, with the newest measurement in it."""
        found = view.metrics.get(self.metric)
        recent, average = state.recent, state.average
        if found is not None:
            recent = (*recent, float(found))[-self.window :]
            weight = 2.0 / (self.window + 1)
            average = float(found) if average is None else average + weight * (found - average)
        state = replace(state, recent=recent, average=average)
        if not recent:
            return None, state
        return (sum(recent) / len(recent) if self.average == "window" else average), state

    def _goal(self, mean: float | None) -> float | None:
        """Return the target of the scale, None if it is left alone."""
        if mean is None or self.band[0] <= mean <= self.band[1]:
            return None
        return self.limits[1] if mean < self.band[0] else self.limits[0]


@dataclass(frozen=True, slots=True)
class NudgeState:
    """The recent measurements, newest last."""

    recent: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Nudge(WritesOne):
    """Pull one setting towards its ceiling while a metric is too low, its floor while too high."""

    name: str
    """The controller's unique name."""
    setting: Setting[float]
    """The setting to move."""
    metric: str
    """The metric that is to stay in the band."""
    band: tuple[float, float]
    """The lowest and highest average at which the setting is left alone."""
    limits: tuple[float, float]
    """The lower and upper limit of the setting."""
    rate: float = 0.05
    """The share of the remaining way covered at each measurement."""
    window: int = 50
    """How many measurements are averaged."""

    def __post_init__(self) -> None:
        _check_intervals(self.name, band=self.band, limits=self.limits)
        check_ranges(self, f"schedule.{self.name}", {PART: "rate", AT_LEAST_1: "window"})

    @property
    def reads(self) -> tuple[str, ...]:
        """The metric that is to stay in the band."""
        return (self.metric,)

    @property
    def emits(self) -> tuple[str, ...]:
        """The average."""
        return (f"adaptive/{self.name}_mean",)

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """The outermost values it may assign."""
        return tuple(self.setting.to(value) for value in self.limits)

    def initial(self) -> NudgeState:
        """Return the state without measurements."""
        return NudgeState()

    def decide(self, state: NudgeState, view: View) -> Decision[NudgeState]:
        """Move the setting a little if the average left the band."""
        if self.metric not in view.metrics:
            return Decision(state)
        state = NudgeState((*state.recent, float(view.metrics[self.metric]))[-self.window :])
        mean = sum(state.recent) / len(state.recent)
        metrics = dict.fromkeys(self.emits, mean)
        if self.band[0] <= mean <= self.band[1]:
            return Decision(state, metrics=metrics)
        is_low = mean < self.band[0]
        goal = self.limits[1] if is_low else self.limits[0]
        now = view.settings[self.setting]
        moved = between(now, goal, self.rate)
        if moved == now:
            return Decision(state, metrics=metrics)
        side = f"below {self.band[0]:.3g}" if is_low else f"above {self.band[1]:.3g}"
        why = f"{self.metric} averaged {mean:.3g}, {side}"
        return Decision(state, (self.setting.to(moved),), why, metrics)
