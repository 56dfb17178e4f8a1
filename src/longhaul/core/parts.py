"""The parts the training loop turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from longhaul.core.control import Progress
from longhaul.core.env import Episode
from longhaul.core.metrics import Metrics
from longhaul.core.rollout import Rollout
from longhaul.core.settings import Settings
from longhaul.core.state import Stateful


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


class RunListener:
    """Follows a run iteration by iteration; override what you need.

    An error of a listener never ends a run: it is logged, and the listener hears no more. The one
    exception is a `LonghaulError` from `begin`, by which a listener refuses the run.
    """

    def begin(self, progress: Progress) -> None:
        """Take note of where the run starts or continues; called once, before the first step."""

    def iteration(self, recorded: Recorded) -> None:
        """Take one iteration, which is in the logs already."""

    def close(self) -> None:
        """Flush; the run hears no more of this listener."""
