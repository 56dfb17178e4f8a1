"""A thread that does one thing every few seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Background:
    """Calls `work` every so many seconds, from a daemon thread, between `start` and `close`."""

    def __init__(self, name: str, every_seconds: float, work: Callable[[], None]) -> None:
        self._every = every_seconds
        self._work = work
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def ident(self) -> int | None:
        """The thread's number; None before it started."""
        return self._thread.ident

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> bool:
        """End the thread and wait for it; return whether it was running."""
        self._ended.set()
        was_running = self._thread.is_alive()
        if was_running:
            self._thread.join()
        return was_running

    def _run(self) -> None:
        while not self._ended.wait(self._every):
            self._work()
