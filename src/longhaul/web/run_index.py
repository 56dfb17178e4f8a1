"""An index of all runs; a thread reads the ones that are viewed, in bounded memory."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from longhaul.core.control import Progress, RunLength
from longhaul.core.errors import ConfigError
from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.follow import LogFollower, signature
from longhaul.runs.reader import RunState, read_run
from longhaul.web.curves import RunCurves
from longhaul.web.events import RunEvents
from longhaul.web.files import SMALL_FILE, RunsFolder, read_small
from longhaul.web.summary import (
    STUCK_SECONDS,
    RunStatus,
    RunSummary,
    read_length,
    run_status,
    seconds_left,
)

MOST_OPEN = 24
MOST_OPEN_BYTES = 80 * 1024 * 1024
SCAN_SECONDS = 0.9
IDLE_SECONDS = 30.0
"""An open run without a request for this long is no longer followed; it stays in memory."""
_RECENT_BYTES = 32 * 1024


class OpenRun:
    """A run that is being viewed: all its curves and events."""

    def __init__(self, directory: RunDirectory, clock: Callable[[], float]) -> None:
        self._directory = directory
        self._clock = clock
        self._seen: tuple[object, ...] = ()
        self.lock = threading.RLock()
        self.curves = RunCurves(directory)
        self.events = RunEvents(directory)
        self.is_whole = False
        self.asked_at = clock()

    @property
    def has_news(self) -> bool:
        """Whether a page still shows the run and there is something to read."""
        if self._clock() - self.asked_at > IDLE_SECONDS:
            return False
        return not self.is_whole or self._signatures() != self._seen

    def advance(self) -> None:
        """Read a piece of each log."""
        before = self._signatures()
        with self.lock:
            more = self.curves.advance()
            moved, more_events = self.events.advance()
            if self.events.restarted:
                self.curves.forget_settings()
            self.curves.add_settings(moved)
        self.is_whole = not (more or more_events)
        if self.is_whole:
            self._seen = before

    def _signatures(self) -> tuple[object, ...]:
        run = self._directory
        return tuple(map(signature, (run.metrics, run.timings, run.events, run.sessions)))


@dataclass(slots=True)
class IndexedRun:
    """One run in the list."""

    directory: RunDirectory
    summary: RunSummary
    state: RunState | None = None
    length: RunLength = field(default_factory=RunLength)
    seen: tuple[object, ...] = ()
    problem: str = ""


class RunIndex:
    """The runs of a folder; a thread reads while requests are answered."""

    def __init__(self, folder: RunsFolder, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._clock = clock
        self._runs: dict[str, IndexedRun] = {}
        self._open: OrderedDict[str, OpenRun] = OrderedDict()
        self._lock = threading.RLock()
        self._work = threading.Condition(self._lock)
        self._progress = threading.Condition(self._lock)
        self._scanned_at = -float("inf")
        self._closed = False
        self._thread = threading.Thread(target=self._read_on, name="longhaul-reader", daemon=True)

    def start(self) -> None:
        """Start the thread that reads."""
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        with self._lock:
            self._closed = True
            self._work.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def entries(self) -> list[dict[str, Any]]:
        """Return one entry per run, oldest first, as far as it is read."""
        self._scan()
        with self._lock:
            runs = list(self._runs.items())
        now = self._clock()
        found = [self._entry(name, run, now) for name, run in runs]
        return sorted(found, key=lambda entry: (entry["created"], entry["id"]))

    def directory(self, name: str) -> RunDirectory | None:
        """Return the directory of a run of this name, None if there is none."""
        with self._lock:
            run = self._runs.get(name)
        if run is None:
            self._scan(force=True)
            with self._lock:
                run = self._runs.get(name)
        return None if run is None else run.directory

    def entry(self, name: str) -> dict[str, Any] | None:
        """Return the entry of one run."""
        self._scan()
        with self._lock:
            run = self._runs.get(name)
        return None if run is None else self._entry(name, run, self._clock())

    def state(self, name: str) -> RunState | None:
        """Return the state of a run when it was last read."""
        with self._lock:
            run = self._runs.get(name)
        return None if run is None else run.state

    def open(self, name: str, *, patience: float = 0.25) -> OpenRun | None:
        """Return a run to view, read to its end or as far as `patience` seconds allow."""
        directory = self.directory(name)
        if directory is None:
            return None
        with self._lock:
            run = self._open.get(name)
            if run is None:
                run = self._open[name] = OpenRun(directory, self._clock)
            self._open.move_to_end(name)
            run.asked_at = self._clock()
            self._work.notify_all()
            until = time.monotonic() + patience
            while run.has_news and not self._closed:
                left = until - time.monotonic()
                if left <= 0 or not self._progress.wait(left):
                    break
        return run

    def wake(self) -> None:
        """Wake the thread to look for changes."""
        with self._lock:
            self._work.notify_all()

    def _scan(self, *, force: bool = False) -> None:
        with self._lock:
            now = time.monotonic()
            if not force and now - self._scanned_at < SCAN_SECONDS:
                return
            found = self.folder.runs()
            for name in [name for name in self._runs if name not in found]:
                del self._runs[name]
                self._open.pop(name, None)
            for name, directory in found.items():
                if name not in self._runs:
                    self._runs[name] = IndexedRun(directory, RunSummary(directory))
                _look(self._runs[name])
            self._scanned_at = time.monotonic()
            self._work.notify_all()

    def _entry(self, name: str, run: IndexedRun, now: float) -> dict[str, Any]:
        state, line = run.state, run.summary.line
        iteration, steps, episodes = line.counters
        progress = Progress(int(iteration), int(steps), int(episodes))
        found: dict[str, Any] = {
            "id": name,
            "status": "failed",
            "words": run.problem,
            "created": "",
            "read": line.is_whole,
            "rows": line.rows,
            "steps": steps,
            "iteration": iteration,
            "episodes": episodes,
            "score": None if line.score is None else msgspec.to_builtins(line.score),
            "interval": "" if line.score is None else line.score.interval,
            "solved": None if line.score is None else line.score.is_solved,
            "target": line.measure.target,
            "best": None if line.best is None else msgspec.to_builtins(line.best),
            "measured_by": line.measure.metric,
            "spark": line.spark,
            "spark_of": line.spark_of,
            "share": run.length.share(progress),
        }
        if state is None:
            return found
        status = _status(state, now)
        found |= {
            "status": status.kind,
            "words": status.words,
            "created": state.record.created,
            "task": state.record.task,
            "name": state.record.name,
            "seed": state.record.seed,
        }
        if state.beat is not None:
            found |= {
                "stage": state.beat.stage,
                "beat": state.beat.wall,
                "fps": state.beat.rates.get("time/fps"),
                "left": seconds_left(run.length, state.beat, progress),
            }
        return found

    def _read_on(self) -> None:
        while True:
            with self._lock:
                if self._closed:
                    return
                run = next((one for one in reversed(self._open.values()) if one.has_news), None)
                summary = None
                if run is None:
                    runs = reversed(self._runs.values())
                    summary = next((run.summary for run in runs if run.summary.has_news), None)
                if run is None and summary is None:
                    self._work.wait()
                    continue
            if run is not None:
                run.advance()
            elif summary is not None:
                summary.advance()
            with self._lock:
                self._forget_old()
                self._progress.notify_all()

    def _forget_old(self) -> None:
        """Drop the runs without a request for the longest time while too many are in memory."""
        sizes = {name: run.curves.nbytes for name, run in self._open.items()}
        while len(sizes) > 1 and (len(sizes) > MOST_OPEN or sum(sizes.values()) > MOST_OPEN_BYTES):
            oldest = next(iter(sizes))
            del sizes[oldest], self._open[oldest]


def _look(run: IndexedRun) -> None:
    """Read a run's state again if one of its files changed."""
    directory = run.directory
    files = (directory.record, directory.heartbeat, directory.lock, directory.config)
    found = tuple(map(signature, files))
    if found == run.seen:
        return
    run.seen = found
    pairs = zip(files, found, strict=True)
    if any(_is_odd(path, one) for path, one in pairs):
        run.state, run.problem = None, "its files are links, pipes or too large"
        return
    run.length = read_length(read_small(directory.config) or b"")
    try:
        run.state, run.problem = read_run(directory), ""
    except ConfigError as error:
        run.problem = str(error)


def _is_odd(path: Path, found: tuple[int, int, int] | None) -> bool:
    """Whether the path must not be read: a link, a pipe, or a file that is too large."""
    return os.path.lexists(path) if found is None else found[1] > SMALL_FILE


def _status(state: RunState, now: float) -> RunStatus:
    slowest = 0.0
    if state.beat is not None and state.beat.stage_seconds > STUCK_SECONDS:
        slowest = _slowest_iteration(state.directory)
    return run_status(state, now=now, slowest_iteration=slowest)


def _slowest_iteration(directory: RunDirectory) -> float:
    """Return the longest of the last iterations, in seconds."""
    found = signature(directory.timings)
    if found is None:
        return 0.0
    rows = LogFollower(directory.timings).read_from(max(0, found[1] - _RECENT_BYTES), found[1])
    taken = [row.get("time/iteration_seconds") for row in rows]
    return max((float(one) for one in taken if isinstance(one, (int, float))), default=0.0)
