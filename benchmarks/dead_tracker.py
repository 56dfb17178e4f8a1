"""A tracker that never answers, to measure what such a tracker costs a run."""

from __future__ import annotations

import threading

from longhaul.app.session.tracking import TRACKERS, TrackerKind
from longhaul.core.control import Progress
from longhaul.runs.track.tracker import Point


class DeadTracker:
    """Hangs when it is opened, as a server does that takes a connection and says nothing."""

    def __init__(self) -> None:
        self._ended = threading.Event()

    def open(self, progress: Progress) -> int:
        """Wait until nothing waits any more."""
        self._ended.wait()
        raise ConnectionAbortedError("a dead tracker never answers")

    def write(self, point: Point) -> None:
        """Never reached."""

    def flush(self) -> None:
        """Never reached."""

    def close(self) -> None:
        """Never reached."""

    def abandon(self) -> None:
        """Let the thread go."""
        self._ended.set()


def register() -> None:
    """Let configurations of this process name the tracker `dead`."""
    TRACKERS["dead"] = TrackerKind("longhaul", "", lambda subject, track, clocks: DeadTracker())
