"""The parts the training loop turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from longhaul.core.control import Progress, View
from longhaul.core.env import Episode
from longhaul.core.errors import NumericalError
from longhaul.core.metrics import Metrics
from longhaul.core.rollout import Rollout
from longhaul.core.settings import Assignment, Settings, SettingValue
from longhaul.core.state import State, Stateful


class Collector(Stateful, Protocol):
    """Brings rollouts."""

    def collect(self, settings: Settings) -> Rollout:
        """Return the next rollout."""

    def timings(self) -> Metrics:
        """Return what depends on clocks, since the last call; may be empty."""

    def close(self) -> None:
        """End environments and threads."""


class LearnerProtocol(Stateful, Protocol):
    """Turns rollouts into better weights."""

    def update(self, rollout: Rollout, settings: Settings) -> Metrics:
        """Learn from one rollout."""


class Event(Protocol):
    """Something that happened and belongs into the run's events."""

    def as_row(self) -> dict[str, Any]:
        """Return plain values that depend on nothing but the run's own course."""


class Evaluator(Protocol):
    """Measures the policy under fixed conditions."""

    def due(self, progress: Progress) -> bool:
        """Whether to measure at this point of the run."""

    def measure(self, progress: Progress, settings: Settings) -> Metrics:
        """Return `eval/...` metrics of the present policy."""

    def take_notes(self) -> Sequence[Event]:
        """Return the events of the measurements since the last call, once."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One iteration as it went into the logs."""

    progress: Progress
    metrics: Metrics
    timings: Metrics
    settings: Settings
    """What the iteration ran with."""
    episodes: Sequence[Episode]

    @property
    def values(self) -> Metrics:
        """The metrics together with the timings."""
        return {**self.metrics, **self.timings}


class RunControl:
    """One iteration before it is logged, through which a listener changes the course of the run.

    Whatever it changes goes into the run's events and metrics.
    """

    def __init__(self, view: View, settings: Settings) -> None:
        self.progress = view.progress
        self.metrics = view.metrics
        """The iteration's metrics, those of earlier listeners included."""
        self.settings = settings.values()
        """What the next iteration runs with, by name."""
        self.stop_reason = ""
        self.assignments: list[Assignment] = []
        self.logged: dict[str, float] = {}
        self._declared = settings

    def stop(self, reason: str) -> None:
        """End the run after this iteration, with its final evaluation, as if it were at its end."""
        self.stop_reason = reason

    def set(self, name: str, value: SettingValue) -> None:
        """Change a setting from the next iteration on."""
        self.settings[name] = self._declared.declaration(name).check(value)
        self.assignments.append(Assignment(name, self.settings[name]))

    def log(self, name: str, value: float) -> None:
        """Add a metric to the iteration."""
        if not math.isfinite(value):
            raise NumericalError(f"a listener logs {name} = {value}, which is not finite")
        self.logged[name] = float(value)


class RunListener:
    """Follows a run iteration by iteration, and may steer it; override what you need.

    An error of `steer` ends the run, because what it would have changed is not known. Any other
    error of a listener never does: it is logged, and the listener hears no more. The one exception
    is a `LonghaulError` from `begin`, by which a listener refuses the run.
    """

    def begin(self, progress: Progress) -> None:
        """Take note of where the run starts or continues; called once, before the first step."""

    def steer(self, run: RunControl) -> None:
        """Stop the run, change its settings or log metrics, before the iteration is logged.

        Decide by metrics and by what `state_dict` saves alone, and the run can be resumed exactly,
        with the same listener.
        """

    def iteration(self, recorded: Recorded) -> None:
        """Take one iteration, which is in the logs already."""

    def state_dict(self) -> State:
        """Return what has to be remembered when the run is resumed."""
        return {}

    def load_state_dict(self, state: State) -> None:
        """Go on from a saved state."""

    def close(self) -> None:
        """Flush; the run hears no more of this listener."""
