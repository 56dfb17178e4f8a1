"""The files a task makes of a run's logs, written after every evaluation and at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from longhaul.app.assemble import build_schedule, build_settings, build_task
from longhaul.app.config import RunConfig
from longhaul.app.configure import from_values, read_toml
from longhaul.core.errors import ConfigError
from longhaul.core.metrics import Metrics
from longhaul.core.progress import Progress
from longhaul.core.run_log import RunLog
from longhaul.core.settings import SettingValue
from longhaul.core.task import Task
from longhaul.runs.clocks import Clocks
from longhaul.runs.directory import RunDirectory
from longhaul.runs.durable import replace_file, storage_errors
from longhaul.runs.jsonl import Row
from longhaul.runs.reader import (
    read_checkpoints,
    read_episodes,
    read_events,
    read_metrics,
    read_sessions,
)
from longhaul.runs.record import Status

_WORK = ("time/collect_seconds", "time/learn_seconds", "time/evaluate_seconds")


MOST = 0.02
"""Share of a run's time that its records may take."""


class RecordsSink:
    """Makes the records anew when an evaluation has been logged, and when the run stops.

    They are made from all of the run, so that they take longer and longer. An evaluation that
    comes too soon is left to the next one, or to the end.
    """

    def __init__(self, run: RunDirectory, config: RunConfig, task: Task, clocks: Clocks) -> None:
        self._run = run
        self._task = task
        self._clocks = clocks
        self._opening = opening_settings(config, task)
        self._not_before = clocks.monotonic()

    def write(self, progress: Progress, metrics: Metrics) -> None:
        """Take one iteration's metrics, which are in the logs already."""
        begun = self._clocks.monotonic()
        if begun < self._not_before or not any(name.startswith("eval/") for name in metrics):
            return
        write_records(self._run, self._task, self._opening, self._clocks)
        ended = self._clocks.monotonic()
        self._not_before = ended + (ended - begun) / MOST

    def close(self) -> None:
        """Make the records a last time."""
        write_records(self._run, self._task, self._opening, self._clocks)


def record_run(path: Path) -> str:
    """Make the records of a run now; return which files were written."""
    run = RunDirectory(path)
    run.read_record()
    run.check_plain()
    config = from_values(read_toml(run.config))
    task = build_task(config)
    if task.records is None:
        raise ConfigError(f"task {task.name!r} makes no records of its runs")
    written = write_records(run, task, opening_settings(config, task), Clocks())
    return "\n".join(map(str, written))


def opening_settings(config: RunConfig, task: Task) -> dict[str, SettingValue]:
    """Return the settings a run of this configuration begins with."""
    settings = build_settings(config, task)
    # A schedule of its own: the run's must begin only once.
    return build_schedule(config, task, settings).begin(settings)[0].values()


def write_records(
    run: RunDirectory, task: Task, opening: Mapping[str, SettingValue], clocks: Clocks
) -> tuple[Path, ...]:
    """Write the task's files into the run's `evaluations/`, each whole or not at all."""
    if task.records is None:
        return ()
    made = task.records(run_log(run, opening, clocks))
    written = tuple(run.evaluations / name for name in made)
    with storage_errors(run.evaluations):
        run.evaluations.mkdir(exist_ok=True)
        for path, text in zip(written, made.values(), strict=True):
            replace_file(path, text.encode())
    return written


def run_log(run: RunDirectory, opening: Mapping[str, SettingValue], clocks: Clocks) -> RunLog:
    """Return what a run has written so far."""
    record = run.read_record()
    rows = read_metrics(run).rows
    made = [path for folder in (run.plots, run.media) for path in folder.rglob("*.*")]
    return RunLog(
        name=record.name,
        metrics=rows,
        events=read_events(run).rows,
        settings=opening,
        episodes=lambda: read_episodes(run).rows,
        is_over=record.status is Status.FINISHED,
        now=clocks.stamp(),
        times=_times(rows, read_sessions(run).rows),
        checkpoints={
            entry.manifest.progress.iteration: entry.path.relative_to(run.path).as_posix()
            for entry in read_checkpoints(run)
            if entry.manifest is not None
        },
        files=frozenset(path.relative_to(run.path).as_posix() for path in made),
    )


def _times(rows: Sequence[Row], sessions: Sequence[Row]) -> dict[int, str]:
    """Return when each iteration ended: its session's beginning and the work done since."""
    begun = [row for row in sessions if row.get("event") in ("started", "resumed")]
    spent: dict[int, float] = {}
    times = {}
    for row in rows:
        own = [place for place, one in enumerate(begun) if one["iteration"] < row["iteration"]]
        if not own or "time/iteration_seconds" not in row:
            continue
        # A session's first iteration is measured with the set-up before it, which is not work.
        names = _WORK if own[-1] not in spent else ("time/iteration_seconds",)
        spent[own[-1]] = spent.get(own[-1], 0.0) + sum(row.get(name, 0.0) for name in names)
        ended = datetime.fromisoformat(begun[own[-1]]["time"]) + timedelta(seconds=spent[own[-1]])
        times[row["iteration"]] = ended.isoformat(timespec="milliseconds")
    return times
