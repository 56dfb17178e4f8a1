"""A tracker that never answers, for measuring what one costs."""

from __future__ import annotations

import threading

from longhaul.core.progress import Progress
from longhaul.runs.track.tracker import Point


class Dead:
    """Hangs when it is opened, as a server does that takes a connection and says nothing."""

    def __init__(self) -> None:
        self._ended = threading.Event()

    def open(self, progress: Progress) -> int:
        """Wait until nobody waits any more."""
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
