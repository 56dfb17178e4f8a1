"""Stages of a queue one after the other: the current one, what remains, and when that is low."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class QueueStage:
    """One stage of a queue."""

    capacity: int
    category: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """The state of a queue at one moment."""

    index: int  # of the stage, from 1
    label: str
    category: str
    progress: float  # within the stage
    consumed: int
    remaining: int
    remaining_ratio: float  # of the total
    remaining_by_category: Mapping[str, int]
    reentries_by_category: Mapping[str, int]  # stages of it entered so far, without the first


@dataclass(frozen=True, slots=True)
class StageTracker:
    """The stages of a queue, in order."""

    stages: tuple[QueueStage, ...]

    @property
    def total(self) -> int:
        """The capacity of all stages."""
        return sum(stage.capacity for stage in self.stages)

    def ends(self) -> tuple[int, ...]:
        """Return what is consumed at the end of each stage."""
        return tuple(itertools.accumulate(stage.capacity for stage in self.stages))

    def categories(self) -> tuple[str, ...]:
        """Return the categories in order; stages without one have none."""
        return tuple(dict.fromkeys(stage.category for stage in self.stages if stage.category))

    def position(self, consumed: int) -> int:
        """Return the number, from 0, of the first stage that ends after `consumed`.

        Once everything is consumed it is the number of stages.
        """
        return sum(end <= consumed for end in self.ends())

    def status(self, consumed: int, *, stage: int | None = None) -> QueueStatus:
        """Return the status; after the end, that of a finished last stage.

        It describes the stage that comes next, or the one with the number `stage`, from 0.
        """
        total, ends = self.total, self.ends()
        consumed = min(consumed, total)
        position = min(self.position(consumed) if stage is None else stage, len(ends) - 1)
        current = self.stages[position]
        left = dict.fromkeys(self.categories(), 0)
        entered = dict.fromkeys(self.categories(), 0)
        for number, (one, end) in enumerate(zip(self.stages, ends, strict=True)):
            if one.category:
                left[one.category] += min(one.capacity, max(0, end - consumed))
                entered[one.category] += number <= position
        begin = ends[position] - current.capacity
        return QueueStatus(
            index=position + 1,
            label=current.label,
            category=current.category,
            progress=min((consumed - begin) / current.capacity, 1.0),
            consumed=consumed,
            remaining=total - consumed,
            remaining_ratio=(total - consumed) / total,
            remaining_by_category=left,
            reentries_by_category={name: max(0, count - 1) for name, count in entered.items()},
        )


@dataclass(frozen=True, slots=True)
class WarningState:
    """Successive observations of a low ratio, and since when the warning is active."""

    hits: int = 0
    since: int | None = None  # None: no warning is active

    def duration(self, iteration: int) -> int:
        """Return for how many iterations it has been active, this one included."""
        return 0 if self.since is None else iteration - self.since + 1


@dataclass(frozen=True, slots=True)
class LowWarning:
    """Active once the remaining ratio was at or below a threshold often enough in a row."""

    threshold: float = 0.0
    """At or below this share of the whole; 0 or less: never."""
    patience: int = 3

    def observe(self, state: WarningState, iteration: int, ratio: float | None) -> WarningState:
        """Return the state after one iteration; an unknown ratio resolves as a high one does."""
        if self.threshold <= 0 or ratio is None or ratio > self.threshold:
            return WarningState()
        hits = state.hits + 1
        if state.since is None and hits >= self.patience:
            return WarningState(hits, since=iteration)
        return replace(state, hits=hits)


def queue_metrics(
    prefix: str, status: QueueStatus, warning: WarningState, iteration: int
) -> dict[str, float]:
    """Return the metrics that all queues have."""
    by_category = {
        f"{prefix}_remaining": status.remaining_by_category,
        f"{prefix}_reentries": status.reentries_by_category,
    }
    metrics = {
        f"{prefix}_stage": status.index,
        f"{prefix}_stage_progress": status.progress,
        f"{prefix}_remaining": status.remaining,
        f"{prefix}_remaining_ratio": status.remaining_ratio,
        f"{prefix}_low_hits": warning.hits,
        f"{prefix}_warning": warning.since is not None,
        f"{prefix}_warning_duration": warning.duration(iteration),
        **{
            f"{name}_{category}": count
            for name, counts in by_category.items()
            for category, count in counts.items()
        },
    }
    return {name: float(value) for name, value in metrics.items()}
