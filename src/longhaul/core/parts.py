"""The parts the training loop turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from longhaul.core.env import Episode
from longhaul.core.metrics import Metrics
from longhaul.core.progress import Progress
from longhaul.core.rollout import Rollout
from longhaul.core.settings import Settings
from longhaul.core.state import Stateful


class Collector(Stateful, Protocol):
    """Brings rollouts."""

    def collect(self, settings: Settings) -> Rollout:
        """Return the next rollout."""

    def close(self) -> None:
        """End environments and threads."""


class Learner(Stateful, Protocol):
    """Turns rollouts into better weights."""

    def update(self, rollout: Rollout, settings: Settings) -> Metrics:
        """Learn from one rollout."""


class Note(Protocol):
    """Something that happened and belongs into the run's events."""

    def as_row(self) -> dict[str, Any]:
        """Return plain values that depend on nothing but the run's own course."""


class Evaluator(Protocol):
    """Measures the policy under fixed conditions."""

    def due(self, progress: Progress) -> bool:
        """Whether to measure at this point of the run."""

    def measure(self, progress: Progress, settings: Settings) -> Metrics:
        """Return `eval/...` metrics of the present policy."""

    def take_notes(self) -> Sequence[Note]:
        """Return what the measurements since the last call have to tell, once."""


class MetricSink(Protocol):
    """Somewhere metrics go."""

    def write(self, progress: Progress, metrics: Metrics) -> None:
        """Take one iteration's metrics."""

    def close(self) -> None:
        """Flush."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One iteration as it went into the logs."""

    progress: Progress
    metrics: Metrics
    timings: Metrics
    settings: Settings
    """What the iteration ran with."""
    episodes: Sequence[Episode]


class Witness(Protocol):
    """Somebody who follows a run iteration by iteration."""

    def begin(self, progress: Progress) -> None:
        """Take note of where the run begins or goes on; called once, before anything is seen."""

    def see(self, recorded: Recorded) -> None:
        """Take one iteration, which is in the logs already."""

    def close(self) -> None:
        """Flush."""
