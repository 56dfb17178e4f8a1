"""One moment per iteration: its metrics, the settings it ran with, and where the tail stood."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longhaul.core.run_log import Row, RunLog
from longhaul.tasks.fish.tail.options import TailOptions
from longhaul.tasks.fish.tail.queue import NAME
from longhaul.tasks.fish.tail.stages import StageSpec
from longhaul.tasks.fish.tail.warning import Observation, WarningEvent, warning_events


@dataclass(frozen=True, slots=True)
class Moment:
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
        return None if self.stage is None else self.stage.stage_type


@dataclass(frozen=True, slots=True)
class Timeline:
    """All iterations of a run, from the first."""

    moments: tuple[Moment, ...]
    types: tuple[str, ...]  # of the tail's stages
    warnings: tuple[WarningEvent, ...]

    @staticmethod
    def of(log: RunLog, tail: TailOptions) -> Timeline:
        """Return the timeline of a run that was configured so."""
        specs = tail.specs()
        types = tuple(dict.fromkeys(spec.stage_type for spec in specs if spec.stage_type))
        settings = settings_by_iteration(log)
        moments = tuple(
            Moment(
                iteration=int(row["iteration"]),
                metrics=row,
                settings=settings.get(int(row["iteration"]), log.settings),
                stage=_stage(row, specs),
            )
            for row in log.metrics
        )
        seen = [_observation(moment) for moment in moments] if specs else []
        warned = warning_events(tail.low_warning(), seen, is_over=log.is_over)
        return Timeline(moments, types, warned)

    def at(self, iteration: int) -> Moment | None:
        """Return one iteration, None if the run has not come to it."""
        return next((m for m in self.moments if m.iteration == iteration), None)


def settings_by_iteration(log: RunLog) -> dict[int, dict[str, Any]]:
    """Return the settings each iteration ran with; a change counts from the next one on."""
    moves: dict[int, dict[str, Any]] = {}
    for event in log.events:
        if event.get("event") == "schedule":
            changed = {move["setting"]: move["new"] for move in event["moves"]}
            moves.setdefault(int(event["iteration"]), {}).update(changed)
    present: dict[str, Any] = dict(log.settings)
    found = {}
    for row in log.metrics:
        iteration = int(row["iteration"])
        found[iteration] = present
        if iteration in moves:
            present = {**present, **moves[iteration]}
    return found


def _stage(row: Row, specs: Sequence[StageSpec]) -> StageSpec | None:
    number = row.get(f"starts/{NAME}_stage")
    return None if number is None or not specs else specs[int(number) - 1]


def _observation(moment: Moment) -> Observation:
    return Observation(
        iteration=moment.iteration,
        label=moment.label or "",
        stage_type=moment.stage_type or "",
        remaining=int(moment.tail("remaining") or 0),
        ratio=moment.tail("remaining_ratio"),
    )
