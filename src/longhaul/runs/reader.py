"""Reading run directories: tolerant of damage, without locks, without torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longhaul.core.errors import CheckpointError, ConfigError
from longhaul.runs.checkpoints.inspect import list_checkpoints, read_manifest
from longhaul.runs.checkpoints.manifest import Manifest
from longhaul.runs.directory import RunDirectory, RunRecord, Status, list_run_directories
from longhaul.runs.lock import Holder, read_holder
from longhaul.runs.logs.jsonl import Row, Rows, iterate_rows, read_rows, read_schema, upgraded
from longhaul.runs.monitor.heartbeat import Beat, read_beat


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a run."""

    directory: RunDirectory
    record: RunRecord
    beat: Beat | None
    holder: Holder | None

    @property
    def is_alive(self) -> bool:
        """Whether a trainer is running."""
        running = self.record.status is Status.RUNNING
        return running and self.holder is not None and self.holder.is_alive

    @property
    def status(self) -> str:
        """The status to show: `interrupted` if the trainer died without recording it."""
        if self.record.status is Status.RUNNING and not self.is_alive:
            return "interrupted"
        return self.record.status.value


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """A checkpoint in a list; `manifest` is None and `problem` says why if it is unusable."""

    path: Path
    manifest: Manifest | None
    problem: str = ""


def read_run(directory: RunDirectory) -> RunState:
    """Return the state of a run, or raise `ConfigError` if there is none."""
    return RunState(
        directory=directory,
        record=directory.read_record(),
        beat=read_beat(directory.heartbeat),
        holder=read_holder(directory.lock),
    )


def list_runs(root: Path) -> list[RunState]:
    """Return the readable runs of all tasks under `root`, oldest first."""
    found = []
    for folder in sorted(root.glob("[!.]*/")):
        for directory in list_run_directories(folder):
            try:
                found.append(read_run(directory))
            except ConfigError:
                continue
    return sorted(found, key=lambda run: (run.record.created_at.timestamp(), run.directory.path))


def read_metrics(directory: RunDirectory) -> Rows:
    """Return one row per iteration, with the timings of that iteration beside the metrics."""
    timings: dict[Any, Row] = {}
    timed = read_rows(directory.timings)
    for row in timed.rows:
        timings[row.get("iteration")] = row
    measured = read_rows(directory.metrics)
    version = read_schema(directory)
    merged = [
        upgraded({**timings.get(row.get("iteration"), {}), **row}, version) for row in measured.rows
    ]
    return Rows(merged, measured.skipped + timed.skipped, measured.offset)


def merged_rows(directory: RunDirectory) -> Iterator[Row]:
    """Yield one row per iteration, timings beside metrics, without holding the logs in memory."""
    version = read_schema(directory)
    timings = iterate_rows(directory.timings)
    timing: Row | None = next(timings, None)
    for row in iterate_rows(directory.metrics):
        iteration = row.get("iteration")
        if not isinstance(iteration, int):
            continue
        while timing is not None and _number(timing) < iteration:
            timing = next(timings, None)
        beside = timing if timing is not None and _number(timing) == iteration else {}
        yield upgraded({**beside, **row}, version)


def _number(row: Row) -> int:
    iteration = row.get("iteration")
    return iteration if isinstance(iteration, int) else -1


def read_episodes(directory: RunDirectory) -> Rows:
    """Return one row per finished episode."""
    return read_rows(directory.episodes)


def read_events(directory: RunDirectory) -> Rows:
    """Return one row per decision of the schedule."""
    return read_rows(directory.events)


def read_sessions(directory: RunDirectory) -> Rows:
    """Return the events of the run's processes."""
    return read_rows(directory.sessions)


def read_checkpoints(directory: RunDirectory) -> list[CheckpointEntry]:
    """Return all checkpoints, newest first; parts are not hashed here, manifests are."""
    entries = []
    for path in list_checkpoints(directory.checkpoints):
        try:
            entries.append(CheckpointEntry(path, read_manifest(path)))
        except CheckpointError as error:
            entries.append(CheckpointEntry(path, None, str(error)))
    return entries


def moves_by_iteration(events: Iterable[Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return the settings that were changed after each iteration."""
    moves: dict[int, dict[str, Any]] = {}
    for event in events:
        for move in event.get("moves", ()):
            moves.setdefault(event.get("iteration", 0), {})[move["setting"]] = move["new"]
    return moves
