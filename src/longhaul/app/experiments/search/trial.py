"""One trial: a separate run in a separate process."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longhaul.app.build.config import RunConfig
from longhaul.app.experiments.jobs import Child, Job, Launch, Process, longhaul_command
from longhaul.app.experiments.search.plan import STAGES, Direction, SearchPlan, Take, share_of
from longhaul.app.experiments.search.study import TrialRecord
from longhaul.app.session.start import changed_keys
from longhaul.core.errors import ConfigError, suggestion
from longhaul.runs.directory import RunDirectory, Status, runs_named
from longhaul.runs.durable import replace_file, storage_errors, sync_directory
from longhaul.runs.lock import is_locked
from longhaul.runs.logs.jsonl import Row
from longhaul.runs.reader import read_metrics
from longhaul.runs.toml import write_toml

CLEAN_STOPS = (130, 143, -signal.SIGTERM, -signal.SIGINT)
"""Exit codes of a run that was stopped by a signal."""
TAIL = 0.75
"""Share of a run after which its score is averaged."""
LONGEST_MESSAGE = 300

_KINDS = {
    2: "config",
    3: "environment",
    4: "numbers",
    5: "checkpoint",
    6: "resources",
    7: "locked",
}
CRASHED, STOPPED, TIMEOUT, UNMEASURED = "crashed", "stopped", "timeout", "unmeasured"


@dataclass(frozen=True, slots=True)
class TrialPoint:
    """One iteration of a trial: its share of the run, and the metric if it was measured."""

    share: float
    value: float | None


@dataclass(frozen=True, slots=True)
class Failure:
    """How a trial failed, and its error message."""

    kind: str
    message: str


def curve(rows: Iterable[Row], metric: str, config: RunConfig) -> list[TrialPoint]:
    """Return a run's iterations, in order."""
    points = []
    for row in rows:
        value = row.get(metric)
        number = float(value) if isinstance(value, (int, float)) else None
        points.append(TrialPoint(share_of(row, config), number))
    return points


def stages(points: Sequence[TrialPoint]) -> dict[int, float]:
    """Return the metric at the end of each completed stage.

    That is the last value up to the first iteration after the stage's end, so it does not depend
    on when the log is read. Stages before the first value are left out.
    """
    found: dict[int, float] = {}
    latest, passed = None, 0
    for point in points:
        latest = point.value if point.value is not None else latest
        # The last iteration may miss its stage's end by a rounding error.
        reached = int(point.share * STAGES + 1e-9)
        if latest is not None:
            found |= dict.fromkeys(range(passed + 1, reached + 1), latest)
        passed = max(passed, reached)
    return found


def score(points: Sequence[TrialPoint], take: Take, direction: Direction) -> float | None:
    """Return the score of a finished run; None if the metric was never measured."""
    measured = [(point.share, point.value) for point in points if point.value is not None]
    if not measured:
        return None
    values = [value for _, value in measured]
    match take:
        case "last":
            return values[-1]
        case "best":
            return max(values) if direction == "maximize" else min(values)
        case "mean":
            return sum(values) / len(values)
        case "tail":
            tail = [value for share, value in measured if share > TAIL] or values[-1:]
            return sum(tail) / len(tail)


def failure(code: int, log: str) -> Failure:
    """Return the failure of a run with this exit code, with the error message in its log."""
    message = _error_line(log)
    if code in CLEAN_STOPS:
        return Failure(STOPPED, message or "the run was stopped by a signal")
    if code < 0:
        name = signal.Signals(-code).name
        return Failure(CRASHED, f"killed by {name}" + (f": {message}" if message else ""))
    return Failure(_KINDS.get(code, CRASHED), message or f"exit code {code}")


def unmeasured(metric: str, rows: Sequence[Row]) -> Failure:
    """Return the failure of a run that finished without measuring the objective."""
    known = sorted({name for row in rows for name in row if "/" in name})
    close = suggestion(metric, known)
    return Failure(UNMEASURED, f"the run never measured {metric}{close}")


def _error_line(log: str) -> str:
    """Return the command's error message, or the last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("longhaul: ")]
    line = own[-1].removeprefix("longhaul: ") if own else lines[-1] if lines else ""
    return line[:LONGEST_MESSAGE]


LOCK_SECONDS = 120.0
READING_SHARE = 0.02
"""Share of the time that may be spent on reading a trial's logs."""


class Done:
    """Stands for the process of a run that is already finished."""

    def poll(self) -> int | None:
        """Return exit code 0."""
        return 0

    def ask_to_stop(self) -> None:
        """Do nothing."""

    def end(self) -> int:
        """Return exit code 0."""
        return 0


@dataclass(slots=True)
class LiveTrial(Job):
    """A trial in training."""

    record: TrialRecord
    config: RunConfig
    began: float
    reported: set[int] = field(default_factory=set)
    """Stages that the study has stored."""
    is_pruned: bool = False
    is_late: bool = False
    next_look: float = 0.0

    @property
    def number(self) -> int:
        """The trial's number."""
        return self.record.number


class TrialRuns:
    """Starts the runs of trials and reads their logs."""

    def __init__(
        self, plan: SearchPlan, *, launch: Launch = Child, clock: Callable[[], float]
    ) -> None:
        self._plan = plan
        self._launch = launch
        self._clock = clock
        self._runs: dict[int, RunDirectory] = {}

    def start(self, record: TrialRecord) -> LiveTrial:
        """Start or continue a trial's run; raise a ConfigError for invalid values."""
        planned = self._plan.trial(record.number, record.params)
        config = planned.config
        file, log = self._write_config(record.number, planned.values)
        process: Process = Done()
        if not self._is_finished(record.number, config):
            self._wait_for_the_lock(record.number)
            process = self._launch(self._command(record.number, file), log)
        return LiveTrial(process, log, record, config, self._clock(), set(record.stages))

    def _write_config(self, number: int, values: dict[str, Any]) -> tuple[Path, Path]:
        folder = self._plan.request.folder / "trials"
        file = folder / f"{number:04d}.toml"
        with storage_errors(file):
            folder.mkdir(parents=True, exist_ok=True)
            sync_directory(folder.parent)
            replace_file(file, write_toml(values).encode())
        return file, file.with_suffix(".log")

    def _command(self, number: int, file: Path) -> list[str]:
        request = self._plan.request
        chosen = ["--preset", request.preset] if request.preset else []
        return longhaul_command(
            "train", request.task, *chosen, "--config", str(file.resolve()),
            "--name", request.run_name(number), "--seed", str(request.run_seed(number)),
            "--runs-root", str(request.root.resolve()), "--quiet", "--no-report",
        )  # fmt: skip

    def _is_finished(self, number: int, config: RunConfig) -> bool:
        run = self.find(number)
        return (
            run is not None
            and run.read_record().status is Status.FINISHED
            and not changed_keys(run, config)
        )

    def _wait_for_the_lock(self, number: int) -> None:
        """Wait until the run of a killed search has written its checkpoint."""
        run = self.find(number)
        until = self._clock() + LOCK_SECONDS
        while run is not None and is_locked(run.lock) and self._clock() < until:
            time.sleep(0.1)

    def find(self, number: int) -> RunDirectory | None:
        """Return the run of a trial, None if there is none yet."""
        if number not in self._runs:
            request = self._plan.request
            named = runs_named(
                request.root, request.task, request.run_name(number), request.run_seed(number)
            )
            found = next(named, None)
            if found is None:
                return None
            self._runs[number] = found
        return self._runs[number]

    def rows(self, number: int) -> list[Row]:
        """Return the metrics of a trial's run so far."""
        run = self.find(number)
        return read_metrics(run).rows if run is not None else []

    def new_stages(self, trial: LiveTrial, *, is_over: bool) -> list[tuple[int, float]]:
        """Return the stages a trial has completed since the last call, in order.

        A long log is read less often, which limits the time spent on reading.
        """
        began = self._clock()
        if began < trial.next_look and not is_over:
            return []
        found = stages(self._points(trial))
        took = self._clock() - began
        trial.next_look = self._clock() + took / READING_SHARE
        new = [(stage, value) for stage, value in found.items() if stage not in trial.reported]
        trial.reported |= found.keys()
        return new

    def _points(self, trial: LiveTrial) -> list[TrialPoint]:
        return curve(self.rows(trial.number), self._plan.metric, trial.config)

    def result(self, trial: LiveTrial, code: int) -> float | Failure:
        """Return the score of a trial that ended by itself, or its failure."""
        if trial.is_late:
            limit = self._plan.request.trial_seconds
            return Failure(TIMEOUT, f"not finished after {limit:g} s; raise --trial-timeout")
        if code != 0:
            return failure(code, trial.output())
        request = self._plan.request
        found = score(self._points(trial), request.take, request.direction)
        if found is None:
            return unmeasured(self._plan.metric, self.rows(trial.number))
        return found

    def facts(self, number: int) -> dict[str, str | float]:
        """Return the path, seconds and steps of a trial's run."""
        run, rows = self.find(number), self.rows(number)
        if run is None:
            return {}
        seconds = sum(float(row.get("time/iteration_seconds", 0.0)) for row in rows)
        steps = float(rows[-1].get("env_steps", 0)) if rows else 0.0
        return {"run": str(run.path), "seconds": round(seconds, 1), "steps": steps}


def refuse_leftovers(plan: SearchPlan) -> None:
    """Raise if there are runs of an earlier search of this name whose folder is gone."""
    request = plan.request
    if next(runs_named(request.root, request.task, request.run_name(0), request.run_seed(0)), None):
        raise ConfigError(
            f"there are runs of an earlier search {request.name!r}, but its folder "
            f"{request.folder} is gone; use another --name, or move the runs away"
        )
