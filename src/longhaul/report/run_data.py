"""Everything a run directory holds that a report can use, read once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from longhaul.core.config import parse_toml
from longhaul.core.metrics import Panel
from longhaul.report.statistics import Row, is_number
from longhaul.runs.directory import RunDirectory
from longhaul.runs.durable import read_small
from longhaul.runs.logs.jsonl import read_rows
from longhaul.runs.reader import (
    CheckpointEntry,
    RunState,
    moves_by_iteration,
    read_checkpoints,
    read_episodes,
    read_events,
    read_metrics,
    read_run,
    read_sessions,
)
from longhaul.runs.score import Measure, Score, last_score, read_final_score, read_measure

FILMS = (".mp4", ".gif")
KEPT_EVALUATIONS = "evaluations/*.json"


@dataclass(frozen=True, slots=True)
class RunData:
    """The content of a run directory."""

    state: RunState
    config: dict[str, Any]
    rows: list[Row]
    episodes: list[Row]
    events: list[Row]
    sessions: list[Row]
    evaluations: dict[str, dict[str, Any]]
    """What `longhaul evaluate` kept, by file name."""
    checkpoints: list[CheckpointEntry]
    panels: tuple[Panel, ...]
    films: list[Path]
    skipped: int = 0
    """Lines of logs that could not be read."""
    measure: Measure = field(default_factory=Measure)
    final: Score | None = None
    """The evaluation that ended the run."""
    records: dict[str, list[Row]] = field(default_factory=dict)
    """Rows of the files that panels name."""

    @property
    def directory(self) -> RunDirectory:
        """The run directory."""
        return self.state.directory

    @property
    def score(self) -> str:
        """The metric the task is measured by."""
        return self.measure.metric

    @property
    def reached(self) -> Score | None:
        """The score of the run: its last evaluation, else its training return."""
        return last_score(self.rows, self.final, self.measure)

    @property
    def best(self) -> Score | None:
        """The best evaluation during training, the last of equal ones."""
        steps = ((row, int(row.get("env_steps", 0))) for row in self.rows)
        found = [one for one in (self.measure.of(*at) for at in steps) if one is not None]
        return max(reversed(found), key=lambda one: one.value, default=None)

    @property
    def last(self) -> Row:
        """The last iteration's metrics, or an empty row."""
        return self.rows[-1] if self.rows else {}


def gather(path: Path) -> RunData:
    """Return what a run directory holds; parts that are missing or damaged are empty."""
    directory = RunDirectory(path)
    state = read_run(directory)
    logs = [
        reader(directory) for reader in (read_metrics, read_episodes, read_events, read_sessions)
    ]
    shown = _read_json(directory.panels) or {}
    panels = _read_panels(shown)
    return RunData(
        state=state,
        config=_read_toml(directory.config),
        rows=with_settings(logs[0].rows, logs[2].rows, shown.get("settings", {})),
        episodes=list(logs[1].rows),
        events=list(logs[2].rows),
        sessions=list(logs[3].rows),
        evaluations={
            file.name: found
            for file in sorted(directory.evaluations.glob("step-*.json"))
            if (found := _read_json(file)) is not None
        },
        checkpoints=read_checkpoints(directory),
        panels=panels,
        films=sorted(file for file in directory.media.glob("*") if file.suffix in FILMS),
        skipped=sum(log.skipped for log in logs),
        measure=read_measure(_read_bytes(directory.panels), _read_bytes(directory.config)),
        final=read_final_score(directory),
        records={
            name: _read_records(directory, name) for name in {p.records for p in panels} - {""}
        },
    )


def with_settings(
    rows: Sequence[Row], events: Sequence[Row], opening: Mapping[str, Any]
) -> list[Row]:
    """Return each iteration's metrics with the settings it ran with, as far as they are known."""
    moves = moves_by_iteration(events)
    present = {name: value for name, value in opening.items() if is_number(value)}
    found: list[Row] = []
    for row in rows:
        found.append({**present, **row})
        present |= moves.get(int(row.get("iteration", 0)), {})
    return found


def _read_panels(shown: dict[str, Any]) -> tuple[Panel, ...]:
    try:
        return msgspec.convert(shown.get("panels", []), tuple[Panel, ...])
    except msgspec.ValidationError:
        return ()  # written by another version; the general plots remain


def _read_records(directory: RunDirectory, name: str) -> list[Row]:
    if name == KEPT_EVALUATIONS:
        kept = [_read_json(file) for file in sorted(directory.evaluations.glob("step-*.json"))]
        return [part for one in kept if one for part in one.get("suites", [one])]
    path = (directory.path / name).resolve()
    if not path.is_relative_to(directory.path.resolve()):
        return []
    return list(read_rows(path).rows)


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _read_bytes(path: Path) -> bytes:
    try:
        return read_small(path)
    except OSError:
        return b""


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return parse_toml(read_small(path).decode())
    except (OSError, ValueError):
        return {}
