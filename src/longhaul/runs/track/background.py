"""A tracker in a thread of its own, behind a queue that never makes the run wait."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from longhaul.core.parts import Recorded
from longhaul.core.progress import Progress
from longhaul.runs.clocks import Clocks
from longhaul.runs.track.tracker import Point, Tracker

logger = logging.getLogger(__name__)

Scalars = Callable[[Recorded], Mapping[str, float]]
History = Callable[[int, Progress], Iterable[Point]]
"""Yield the points of the logs after so many steps, up to a progress."""
Weights = Callable[[], Mapping[str, NDArray[np.float32]]]

MOST_FAILURES = 5
"""Failures in a row after which a tracker is given up."""
IDLE_SECONDS = 5.0
"""How long a point may wait to be seen by readers while nothing else comes."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of the points of one process."""

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


class BackgroundTracker:
    """Follows a run for a tracker; what does not fit into the queue is dropped and counted."""

    def __init__(
        self,
        tracker: Tracker,
        feed: Feed,
        clocks: Clocks,
        *,
        capacity: int = 1000,
        patience_seconds: float = 10.0,
    ) -> None:
        self._tracker = tracker
        self._feed = feed
        self._clocks = clocks
        self._queue: queue.Queue[Point | None] = queue.Queue(capacity)
        self._patience = patience_seconds
        self._thread: threading.Thread | None = None
        self._gave_up = threading.Event()
        self._histograms_at = clocks.monotonic()
        self._returns: list[float] = []
        self._lengths: list[float] = []
        self._sent = self._dropped = self._failed = 0
        self._problem = ""
        self._finished = False

    def begin(self, progress: Progress) -> None:
        """Start the thread, which first sends what the tracker lacks of the run so far."""
        # A daemon: a tracker that hangs must not keep the process alive.
        self._thread = threading.Thread(
            target=self._work, args=(progress,), name="tracker", daemon=True
        )
        self._thread.start()

    def see(self, recorded: Recorded) -> None:
        """Queue one iteration, or drop it if the queue is full."""
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

    def close(self) -> None:
        """Wait for the thread for a while, then leave it to its fate."""
        if self._thread is None:
            return
        deadline = self._clocks.monotonic() + self._patience
        while self._thread.is_alive() and self._clocks.monotonic() < deadline:
            try:
                self._queue.put(None, timeout=0.1)
                break
            except queue.Full:
                continue
        self._thread.join(max(deadline - self._clocks.monotonic(), 0.0))
        self._gave_up.set()
        self._thread = None

    @property
    def tally(self) -> Tally:
        """How it went so far."""
        return Tally(self._sent, self._dropped, self._failed, self._problem, self._finished)

    def _take_histograms(self) -> dict[str, NDArray[np.float32]]:
        found = {f"weights/{name}": values for name, values in self._feed.weights().items()}
        if self._returns:
            found["rollout/ep_rew"] = np.array(self._returns, np.float32)
            found["rollout/ep_len"] = np.array(self._lengths, np.float32)
            self._returns, self._lengths = [], []
        return found

    def _offer(self, point: Point) -> None:
        if self._gave_up.is_set():
            self._dropped += 1
            return
        try:
            self._queue.put_nowait(point)
        except queue.Full:
            self._dropped += 1

    def _work(self, progress: Progress) -> None:
        """Send points until the end; in the thread."""
        try:
            known = self._tracker.open(progress)
            for point in self._feed.history(known, progress):
                self._tracker.write(point)
            self._send_all()
            self._tracker.close()
            self._finished = True
        except Exception as error:
            # Whatever a tracker does, it must not end a run.
            self._problem = repr(error)
            self._gave_up.set()
            logger.debug("a tracker was given up", exc_info=True)

    def _send_all(self) -> None:
        in_a_row, unseen = 0, False
        while not self._gave_up.is_set():
            try:
                point = self._queue.get(timeout=IDLE_SECONDS if unseen else None)
                if point is None:
                    return
                self._tracker.write(point)
                self._sent += 1
                in_a_row, unseen = 0, True
            except queue.Empty:
                self._tracker.flush()
                unseen = False
            except Exception as error:
                in_a_row += 1
                self._failed += 1
                self._problem = repr(error)
                if in_a_row >= MOST_FAILURES:
                    raise
