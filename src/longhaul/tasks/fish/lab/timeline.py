"""One moment per iteration: its metrics, settings and tail stage; `schedule_trace.json`."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from longhaul.core.evaluation import Row, RunLog
from longhaul.schedule.start_queue import LowWarning, WarningState
from longhaul.tasks.fish.hard_starts.files import StageSpec
from longhaul.tasks.fish.hard_starts.queue import FORCED_RESETS, NAME
from longhaul.tasks.fish.options import TailOptions
from longhaul.tasks.fish.world.school import FORCED, START_NAME


@dataclass(frozen=True, slots=True)
class LoggedIteration:
    """One iteration."""

    iteration: int
    metrics: Row
    settings: Mapping[str, Any]
    stage: StageSpec | None  # None: no bad starts are dealt

    def metric(self, name: str) -> float | None:
        """Return a metric of the iteration, None if it was not measured."""
        value = self.metrics.get(name)
        return None if value is None else float(value)

    def count(self, name: str, otherwise: int | None = None) -> int | None:
        """Return a metric that counts, or `otherwise` if it was not measured."""
        value = self.metric(name)
        return otherwise if value is None else int(value)

    def tail(self, name: str) -> float | None:
        """Return a metric of the tail's queue."""
        return self.metric(f"starts/{NAME}_{name}")

    def by_type(self, name: str, types: Iterable[str]) -> dict[str, int] | None:
        """Return a count of the tail's queue for each type; None without a queue."""
        found = {stage_type: self.tail(f"{name}_{stage_type}") for stage_type in types}
        known = {name: int(value) for name, value in found.items() if value is not None}
        return known if self.stage is not None else None

    @property
    def label(self) -> str | None:
        """The name of the tail's stage."""
        return None if self.stage is None else self.stage.label

    @property
    def stage_type(self) -> str | None:
        """The type of the tail's stage."""
        return None if self.stage is None else self.stage.type


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
    warning: LowWarning, moments: Sequence[LoggedIteration], *, is_over: bool
) -> tuple[WarningEvent, ...]:
    """Return the warnings of a queue that runs low.

    A ratio that rises ends a warning in its iteration, which no longer counts towards the
    duration; the end of the run, if `is_over`, ends it in the last one, which does.
    """
    events: list[WarningEvent] = []
    state = WarningState()
    for moment in moments:
        iteration, ratio = moment.iteration, moment.tail("remaining_ratio")
        before, state = state, warning.observe(state, iteration, ratio)
        if before.since is None and state.since is not None and ratio is not None:
            events.append(
                WarningEvent(
                    iteration=iteration,
                    tail_stage_label=moment.label or "",
                    tail_stage_type=moment.stage_type or "",
                    remaining_ratio=ratio,
                    remaining=int(moment.tail("remaining") or 0),
                    threshold=warning.threshold,
                )
            )
        elif before.since is not None and state.since is None:
            lasted = before.duration(iteration - 1)
            events[-1] = events[-1].resolved(iteration, lasted, ratio)
    if is_over and state.since is not None:
        last = moments[-1].iteration
        events[-1] = events[-1].resolved(last, state.duration(last), None)
    return tuple(events)


@dataclass(frozen=True, slots=True)
class Timeline:
    """All iterations of a run, from the first."""

    moments: tuple[LoggedIteration, ...]
    types: tuple[str, ...]  # of the tail's stages
    warnings: tuple[WarningEvent, ...]

    @staticmethod
    def of(log: RunLog, tail: TailOptions) -> Timeline:
        """Return the timeline of a run that was configured so."""
        specs = tail.specs()
        types = tuple(dict.fromkeys(spec.type for spec in specs if spec.type))
        settings = log.settings_by_iteration()
        moments = tuple(
            LoggedIteration(
                iteration=int(row["iteration"]),
                metrics=row,
                settings=settings.get(int(row["iteration"]), log.settings),
                stage=_stage(row, specs),
            )
            for row in log.metrics
        )
        watched = moments if specs else ()
        warned = warning_events(tail.low_warning(), watched, is_over=log.is_over)
        return Timeline(moments, types, warned)

    def at(self, iteration: int) -> LoggedIteration | None:
        """Return one iteration, None if the run has not come to it."""
        return next((m for m in self.moments if m.iteration == iteration), None)


def _stage(row: Row, specs: Sequence[StageSpec]) -> StageSpec | None:
    number = row.get(f"starts/{NAME}_stage")
    return None if number is None or not specs else specs[int(number) - 1]


NAMES = tomllib.loads(Path(__file__).with_name("names.toml").read_text("utf-8"))
"""The predecessor's names of curves and fields."""
FIELDS = NAMES["trace"]


def schedule_trace(
    log: RunLog, timeline: Timeline, deaths: Mapping[int, Sequence[Row]]
) -> dict[str, Any]:
    """Return the content of the file; `deaths` are the step-one records of evaluations."""
    entries = [_entry(moment, timeline) for moment in timeline.moments]
    _add_totals(entries, log, timeline)
    for entry in entries:
        if entry["iteration"] in deaths:
            entry["step_one_deaths"] = [dict(row) for row in deaths[entry["iteration"]]]
    return {
        "generated_at": log.now,
        "trace": entries,
        "tail_stage_warnings": [asdict(event) for event in timeline.warnings],
    }


def _entry(moment: LoggedIteration, timeline: Timeline) -> dict[str, Any]:
    hits, episodes = moment.count("starts/used", 0), moment.count("rollout/episodes", 0)
    has_tail = moment.stage is not None
    reinjections = moment.by_type("reentries", timeline.types)
    since = moment.tail("warning_since")
    return {
        "iteration": moment.iteration,
        **{name: moment.settings.get(setting) for name, setting in FIELDS["settings"].items()},
        **{name: moment.metric(metric) for name, metric in FIELDS["metrics"].items()},
        **{name: moment.count(metric, 0) for name, metric in FIELDS["counts_or_zero"].items()},
        **{name: moment.count(metric) for name, metric in FIELDS["counts"].items()},
        "prewarm_override_hits": hits,
        "prewarm_override_episodes": episodes,
        "prewarm_override_ratio": (hits or 0) / episodes if episodes else None,
        "tail_stage_label": moment.label,
        "tail_stage_type": moment.stage_type,
        "tail_stage_remaining_by_type": moment.by_type("remaining", timeline.types),
        "tail_stage_reinjections_by_type": reinjections,
        "tail_ne_reinjections": None if reinjections is None else reinjections.get("ne", 0),
        "tail_stage_warn_active": bool(moment.tail("warning")) if has_tail else None,
        "tail_stage_warn_since": int(since) if since else None,
        "tail_forced_resets": moment.count(FORCED_RESETS, 0),
    }


def _add_totals(entries: Sequence[dict[str, Any]], log: RunLog, timeline: Timeline) -> None:
    """Add what takes more than one iteration to know: sums, averages, reasons per school."""
    reasons = reason_codes(log.episodes()) if _deals(timeline) else {}
    forced = 0
    averages = moving_average([entry["step_one_per_1000"] for entry in entries])
    for entry, average in zip(entries, averages, strict=True):
        forced += entry["tail_forced_resets"]
        entry["tail_forced_resets_total"] = forced
        entry["step_one_per_1000_ema"] = average
        entry["tail_reasons"] = reasons.get(entry["iteration"])


def moving_average(counts: Sequence[float | None], *, decay: float = 0.5) -> list[float | None]:
    """Return the exponential moving average after each count; one that is missing changes none."""
    averages: list[float | None] = []
    average: float | None = None
    for count in counts:
        if count is not None:
            average = count if average is None else decay * average + (1 - decay) * count
        averages.append(average)
    return averages


def _deals(timeline: Timeline) -> bool:
    return any(moment.stage or moment.metric(FORCED_RESETS) for moment in timeline.moments)


CODES: Mapping[str, Callable[[Row], bool]] = {
    "forced_reset": lambda row: row["reason"] == FORCED,
    "time_limit": lambda row: row["reason"] in ("time_limit", "cut"),
    "all_dead": lambda row: row["reason"] == "all_dead",
    "injected": lambda row: START_NAME in row.get("facts", {}),
}
"""Why a school was reset, and whether the episode that ended had begun from a bad start."""


def reason_codes(episodes: Sequence[Row]) -> dict[int, dict[str, dict[str, int]]]:
    """Return for each iteration how often each code held, `{code: {school: episodes}}`."""
    found: dict[int, dict[str, dict[str, int]]] = {}
    for row in episodes:
        codes = found.setdefault(int(row["iteration"]), {})
        for code, holds in CODES.items():
            if holds(row):
                schools = codes.setdefault(code, {})
                schools[str(row["env"])] = schools.get(str(row["env"]), 0) + 1
    return found
