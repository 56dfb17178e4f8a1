"""A tracker in a separate thread, behind a queue that never blocks; and what it is sent."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longhaul.core.control import Progress
from longhaul.core.metrics import Alias, alias_curves
from longhaul.core.parts import Recorded, RunListener
from longhaul.core.settings import SettingValue
from longhaul.runs.directory import RunDirectory
from longhaul.runs.lock import Clocks
from longhaul.runs.logs.jsonl import iterate_rows
from longhaul.runs.reader import merged_rows, moves_by_iteration
from longhaul.runs.track.tracker import Point, Tracker

WALL = "time/wall"
"""The timing that says when an iteration ended."""
_COUNTERS = ("iteration", "episodes")


@dataclass(frozen=True, slots=True)
class Points:
    """Makes points of metrics, settings and old metric names."""

    directory: RunDirectory
    opening: Mapping[str, SettingValue]
    """The settings the run began with."""
    aliases: tuple[Alias, ...] = ()

    def scalars(self, recorded: Recorded) -> Mapping[str, float]:
        """Return the numbers of an iteration."""
        progress = recorded.progress
        counters = {"iteration": progress.iteration, "episodes": progress.episodes}
        measured = {**recorded.metrics, **recorded.timings, **counters}
        return self._named(measured, recorded.settings.values())

    def history(self, known_steps: int, until: Progress) -> Iterator[Point]:
        """Yield the iterations of the logs after `known_steps`."""
        moves = moves_by_iteration(iterate_rows(self.directory.events))
        present: dict[str, Any] = dict(self.opening)
        for row in merged_rows(self.directory):
            steps = row.get("env_steps")
            if isinstance(steps, int) and known_steps < steps <= until.env_steps:
                yield Point(steps, float(row.get(WALL, 0.0)), self._named(row, present))
            # A decision applies from the next iteration on.
            present = {**present, **moves.get(row["iteration"], {})}

    def _named(
        self, measured: Mapping[str, Any], settings: Mapping[str, SettingValue]
    ) -> dict[str, float]:
        named = {
            name: float(value)
            for name, value in measured.items()
            if isinstance(value, (int, float)) and ("/" in name or name in _COUNTERS)
        }
        for name, value in settings.items():
            if isinstance(value, (int, float)):
                named[f"setting/{name}"] = float(value)
        return named | alias_curves(self.aliases, {**settings, **measured})


logger = logging.getLogger(__name__)

Scalars = Callable[[Recorded], Mapping[str, float]]
History = Callable[[int, Progress], Iterable[Point]]
"""Yield the points of the logs after a number of steps, up to a progress."""
Weights = Callable[[], Mapping[str, NDArray[np.float32]]]

MOST_FAILURES = 5
"""Failures in a row after which a tracker is reopened later."""
IDLE_SECONDS = 5.0
"""Idle time after which points are flushed."""
RETRY_SECONDS = 60.0
"""Time until a failed tracker is reopened."""


@dataclass(frozen=True, slots=True)
class TrackerTally:
    """Counts of the points of one process."""

    sent: int
    dropped: int
    failed: int
    problem: str  # the last failure, empty if there was none
    is_finished: bool  # False: the tracker still hung when the run ended


@dataclass(frozen=True, slots=True)
class Feed:
    """Where a tracker's points come from."""

    scalars: Scalars
    history: History
    weights: Weights
    histogram_seconds: float = 60.0  # 0: no histograms


class BackgroundTracker(RunListener):
    """Follows a run for a tracker; what does not fit into the queue is dropped and counted."""

    def __init__(
        self,
        tracker: Tracker,
        feed: Feed,
        clocks: Clocks,
        *,
        capacity: int = 1000,
        patience_seconds: float = 10.0,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._tracker = tracker
        self._feed = feed
        self._clocks = clocks
        self._queue: queue.Queue[Point | None] = queue.Queue(capacity)
        self._patience = patience_seconds
        self._retry_seconds = retry_seconds
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._tried = threading.Event()  # to open the tracker, with or without success
        self._is_open = False
        self._latest = Progress()
        self._sent_steps = -1  # up to which the logs were sent
        self._final: Point | None = None
        self._histograms_at = clocks.monotonic()
        self._returns: list[float] = []
        self._lengths: list[float] = []
        # Each is counted up by one thread alone.
        self._sent = self._dropped = self._recovered = self._failed = 0
        self._problem = ""
        self._finished = False

    def begin(self, progress: Progress) -> None:
        """Start the thread, which first sends the points that the tracker lacks."""
        self._latest = progress
        # A daemon: a tracker that hangs must not keep the process alive.
        self._thread = threading.Thread(target=self._work, name="tracker", daemon=True)
        self._thread.start()

    def opening_problem(self) -> str | None:
        """Wait until the tracker was opened; return why it could not be, empty if it was.

        None if it does not answer for so long that the run should not wait for it.
        """
        if not self._tried.wait(self._patience):
            return None
        return "" if self._is_open else self._problem

    def iteration(self, recorded: Recorded) -> None:
        """Queue one iteration, or drop it if the queue is full."""
        self._latest = recorded.progress
        self._returns += [episode.episode_return for episode in recorded.episodes]
        self._lengths += [float(episode.length) for episode in recorded.episodes]
        now = self._clocks.monotonic()
        every = self._feed.histogram_seconds
        histograms: Mapping[str, NDArray[np.float32]] = {}
        if every > 0 and now - self._histograms_at >= every:
            self._histograms_at = now
            histograms = self._take_histograms()
        elif len(self._returns) > 100_000:
            self._returns, self._lengths = self._returns[::2], self._lengths[::2]
        self._offer(
            Point(
                recorded.progress.env_steps,
                self._clocks.wall(),
                self._feed.scalars(recorded),
                histograms,
            )
        )

    def film(self, progress: Progress, name: str, path: Path) -> None:
        """Queue a film of an iteration that is seen next or was seen last."""
        self._offer(Point(progress.env_steps, self._clocks.wall(), films={name: path}))

    def conclude(self, progress: Progress, scalars: Mapping[str, float]) -> None:
        """Queue the values of the final evaluation, which are not in the logs."""
        self._final = Point(progress.env_steps, self._clocks.wall(), scalars, is_final=True)
        self._offer(self._final)

    def close(self) -> None:
        """Wait up to `patience_seconds` for the thread, then abandon it."""
        if self._thread is None:
            return
        self._closing.set()
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(None)
        self._thread.join(self._patience)
        self._thread = None
        if not self._finished:
            self._tracker.abandon()

    @property
    def tally(self) -> TrackerTally:
        """The counts so far."""
        lost = self._dropped - self._recovered
        return TrackerTally(self._sent, lost, self._failed, self._problem, self._finished)

    def _take_histograms(self) -> dict[str, NDArray[np.float32]]:
        found = {f"weights/{name}": values for name, values in self._feed.weights().items()}
        if self._returns:
            found["rollout/ep_rew"] = np.array(self._returns, np.float32)
            found["rollout/ep_len"] = np.array(self._lengths, np.float32)
            self._returns, self._lengths = [], []
        return found

    def _offer(self, point: Point) -> None:
        try:
            self._queue.put_nowait(point)
        except queue.Full:
            self._dropped += 1

    def _work(self) -> None:
        """Send points until the end; in the thread.

        A tracker that fails is reopened after a while. Missed points are read from the logs, so an
        hour without a network leaves no gap in the curves.
        """
        while True:
            is_last = self._closing.is_set()
            try:
                self._open()
                self._send_all()
                self._tracker.close()
                self._finished = True
                return
            except Exception as error:
                # A tracker must never end a run.
                self._problem = _in_words(error)
                self._tried.set()
                logger.debug("a tracker failed", exc_info=True)
                if is_last:
                    return
                self._closing.wait(self._retry_seconds)

    def _open(self) -> None:
        """Send the tracker what it lacks; points in the queue are in the logs already."""
        dropped = self._dropped
        for _ in range(self._queue.qsize()):
            self._queue.get_nowait()
        until = self._latest
        known = self._tracker.open(until)
        self._is_open = True
        self._tried.set()
        for point in self._feed.history(known, until):
            self._tracker.write(point)
            self._sent += 1
        if self._final is not None:
            self._tracker.write(self._final)
        self._sent_steps = until.env_steps
        self._recovered = dropped

    def _send_all(self) -> None:
        in_a_row, unseen = 0, False
        while not (self._closing.is_set() and self._queue.empty()):
            try:
                point = self._queue.get(timeout=IDLE_SECONDS if unseen else None)
                if point is None:
                    return
                if point.scalars and not point.is_final and point.env_steps <= self._sent_steps:
                    continue  # it was queued while the logs were read
                self._tracker.write(point)
                self._sent += 1
                in_a_row, unseen = 0, True
            except queue.Empty:
                self._tracker.flush()
                unseen = False
            except Exception as error:
                in_a_row += 1
                self._failed += 1
                self._problem = _in_words(error)
                if in_a_row >= MOST_FAILURES:
                    raise


def _in_words(error: Exception) -> str:
    """Return an error as one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
