"""A few threads that stay, for native code that steps a range of simulators without the GIL."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from queue import SimpleQueue

Work = Callable[[int, int], None]


class RangePool:
    """Calls a function for the pieces of 0..count at once, always in the same pieces."""

    def __init__(self, count: int, threads: int) -> None:
        pieces = max(1, min(threads, count))
        borders = [count * piece // pieces for piece in range(pieces + 1)]
        self._mine, *others = itertools.pairwise(borders)
        self._done: SimpleQueue[Exception | None] = SimpleQueue()
        self._inboxes: list[SimpleQueue[Work | None]] = [SimpleQueue() for _ in others]
        self._threads = [
            threading.Thread(target=self._serve, args=(inbox, *piece), daemon=True)
            for inbox, piece in zip(self._inboxes, others, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def run(self, work: Work) -> None:
        """Call `work(begin, end)` for every piece; raise what one of them raised."""
        for inbox in self._inboxes:
            inbox.put(work)
        failure: Exception | None = None
        try:
            work(*self._mine)
        finally:
            # All pieces must be finished before anyone reads or frees the arrays.
            for _ in self._inboxes:
                failure = self._done.get() or failure
        if failure is not None:
            raise failure

    def close(self) -> None:
        """End the threads."""
        for inbox in self._inboxes:
            inbox.put(None)
        for thread in self._threads:
            thread.join()
        self._inboxes = []
        self._threads = []

    def _serve(self, inbox: SimpleQueue[Work | None], begin: int, end: int) -> None:
        while (work := inbox.get()) is not None:
            try:
                work(begin, end)
            except Exception as error:  # noqa: BLE001 - raised again by run() in its caller
                self._done.put(error)
            else:
                self._done.put(None)
