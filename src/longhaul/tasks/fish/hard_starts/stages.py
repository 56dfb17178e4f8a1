"""The stages of bad starts, and the position of a queue in them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from longhaul.core.errors import ConfigError, suggestion
from longhaul.tasks.fish.hard_starts.files import Applied


@dataclass(frozen=True, slots=True)
class StageSpec:
    """A stage of bad starts."""

    iterations: int
    """Length of the stage."""
    path: str = ""
    """The file of starts; empty: a stage without bad starts."""
    type: str = ""
    """What the stage is counted under; several stages may share a type."""
    label: str = ""
    """The stage's name in logs; empty: `stage1:ne` and so on."""
    velocities: Literal["", "before", "after"] = ""
    """When a bare velocity is given to the predator; empty: as `options.tail.velocities`."""

    def resolved(self, number: int, velocities: Applied) -> StageSpec:
        """Return the stage with everything filled in that was left empty."""
        where = f"options.tail.stages: stage {number}"
        if self.iterations < 1:
            raise ConfigError(f"{where}: iterations = {self.iterations} must be at least 1")
        if not re.fullmatch(r"[\w-]*", self.type):
            raise ConfigError(
                f"{where}: type {self.type!r} becomes part of a metric's name and may "
                "hold letters, digits, _ and - only"
            )
        name = Path(self.path).stem if self.path else "rest"
        return replace(
            self,
            type=self.type.lower(),
            label=self.label or f"stage{number}:{name}",
            velocities=self.velocities or velocities,
        )

    @property
    def applied(self) -> Applied:
        """When a bare velocity is given to the predator."""
        return self.velocities or "after"


def with_reinjections(
    stages: Sequence[StageSpec], wanted: Mapping[str, float], *, where: str
) -> tuple[StageSpec, ...]:
    """Return the stages, with a type's last one again at the end until it comes back so often."""
    extended = list(stages)
    for stage_type, minimum in wanted.items():
        own = [stage for stage in stages if stage.type == stage_type]
        if not own:
            types = sorted({stage.type for stage in stages})
            raise ConfigError(
                f"{where}: no stage has type {stage_type!r}{suggestion(stage_type, types)}"
            )
        missing = int(minimum) - (len(own) - 1)
        extended += [
            replace(own[-1], label=f"{own[-1].label} again{number}")
            for number in range(1, missing + 1)
        ]
    return tuple(extended)


@dataclass(frozen=True, slots=True)
class Span:
    """A stage as the tracker sees it."""

    capacity: int
    stage_type: str
    label: str


@dataclass(frozen=True, slots=True)
class TailStatus:
    """Everything a reader wants to know of the queue at one moment."""

    index: int  # of the stage, from 1
    label: str
    stage_type: str
    progress: float  # within the stage
    remaining: int
    remaining_ratio: float  # of the total
    consumed: int
    total_capacity: int
    remaining_by_type: Mapping[str, int]
    remaining_ratio_by_type: Mapping[str, float]  # each over the total capacity
    reinjections_by_type: Mapping[str, int]  # stages of the type entered so far, without the first


@dataclass(frozen=True, slots=True)
class StageTracker:
    """The stages with their capacities, one after the other."""

    spans: tuple[Span, ...]

    @property
    def total(self) -> int:
        """The capacity of all stages."""
        return sum(span.capacity for span in self.spans)

    def ends(self) -> tuple[int, ...]:
        """Return what is consumed at the end of each stage."""
        return tuple(itertools.accumulate(span.capacity for span in self.spans))

    def position(self, consumed: int) -> int:
        """Return the number, from 0, of the first stage that ends after `consumed`.

        Once everything is consumed it is the number of stages.
        """
        return sum(end <= consumed for end in self.ends())

    def status(self, consumed: int, *, stage: int | None = None) -> TailStatus:
        """Return the status; after the end, that of a finished last stage.

        It tells of the stage that comes next, or of the one with the number `stage`, from 0.
        """
        total = self.total
        consumed = min(consumed, total)
        position = min(self.position(consumed) if stage is None else stage, len(self.spans) - 1)
        span, ends = self.spans[position], self.ends()
        begin = ends[position] - span.capacity
        left = {
            stage_type: sum(
                min(other.capacity, max(0, end - consumed))
                for other, end in zip(self.spans, ends, strict=True)
                if other.stage_type == stage_type
            )
            for stage_type in self.types()
        }
        entered = [other.stage_type for other in self.spans[: position + 1]]
        return TailStatus(
            index=position + 1,
            label=span.label,
            stage_type=span.stage_type,
            progress=min((consumed - begin) / span.capacity, 1.0),
            remaining=total - consumed,
            remaining_ratio=(total - consumed) / total,
            consumed=consumed,
            total_capacity=total,
            remaining_by_type=left,
            remaining_ratio_by_type={name: count / total for name, count in left.items()},
            reinjections_by_type={name: max(0, entered.count(name) - 1) for name in self.types()},
        )

    def types(self) -> tuple[str, ...]:
        """Return the types in the order they are met; stages without one have none."""
        return tuple(dict.fromkeys(span.stage_type for span in self.spans if span.stage_type))


@dataclass(frozen=True, slots=True)
class WarningState:
    """Observations in a row of a low ratio, and since when the warning is active."""

    hits: int = 0
    since: int | None = None  # None: idle

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


@dataclass(frozen=True, slots=True)
class Observation:
    """What the queue looked like in one iteration."""

    iteration: int
    label: str
    stage_type: str
    remaining: int
    ratio: float | None


@dataclass(frozen=True, slots=True)
class WarningEvent:
    """One warning from its beginning to its resolution."""

    iteration: int
    tail_stage_label: str
    tail_stage_type: str
    remaining_ratio: float
    remaining: int
    threshold: float
    resolved_iteration: int | None = None
    duration_iterations: int | None = None
    clear_ratio: float | None = None  # None: resolved by the end of the run, or not at all

    def resolved(self, iteration: int, duration: int, ratio: float | None) -> WarningEvent:
        """Return the event with its end."""
        return replace(
            self, resolved_iteration=iteration, duration_iterations=duration, clear_ratio=ratio
        )


def warning_events(
    warning: LowWarning, observations: Sequence[Observation], *, is_over: bool
) -> tuple[WarningEvent, ...]:
    """Return the warnings over one observation per iteration.

    A ratio that rises ends a warning in its iteration, which no longer counts towards the
    duration; the end of the run, if `is_over`, ends it in the last one, which does.
    """
    events: list[WarningEvent] = []
    state = WarningState()
    for seen in observations:
        before, state = state, warning.observe(state, seen.iteration, seen.ratio)
        if before.since is None and state.since is not None and seen.ratio is not None:
            events.append(
                WarningEvent(
                    iteration=seen.iteration,
                    tail_stage_label=seen.label,
                    tail_stage_type=seen.stage_type,
                    remaining_ratio=seen.ratio,
                    remaining=seen.remaining,
                    threshold=warning.threshold,
                )
            )
        elif before.since is not None and state.since is None:
            lasted = before.duration(seen.iteration - 1)
            events[-1] = events[-1].resolved(seen.iteration, lasted, seen.ratio)
    if is_over and state.since is not None:
        last = observations[-1].iteration
        events[-1] = events[-1].resolved(last, state.duration(last), None)
    return tuple(events)
