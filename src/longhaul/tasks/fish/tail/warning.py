"""The warning that bad starts run low: patience before it, duration and resolution after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


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
