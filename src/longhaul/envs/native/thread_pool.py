"""A few threads that do a chain of native work for every simulator of a batch."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol, runtime_checkable

import numpy as np

from longhaul.core.env import Array
from longhaul.core.labor import Link
from longhaul.envs.native.scheduler import lead, new_board, perform, serve, stop

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


PATIENCE_NANOSECONDS = 100_000
"""How long a thread looks for work before it sleeps: longer than Python takes between two steps of
a batch, too short for a learner to miss the core."""


@dataclass(frozen=True, slots=True)
class NativeStep:
    """A step of a batch that needs no Python but at its two ends."""

    chain: Chain
    take: Callable[[Array], None]
    """Takes the actions of all rows, before the chain is done."""
    finish: Callable[[int, int], None]
    """Called with a simulator that was left and the number of links that are done of it."""


@runtime_checkable
class StepsNatively(Protocol):
    """A batch whose simulators may be dealt to the threads of a crew."""

    def native_step(self, members: int) -> NativeStep:
        """Return how to step the simulators by so many threads, into the arrays bound last."""


class Crew:
    """Threads that share the simulators 0 to `count` of a batch one by one.

    Which thread does which simulator depends on who is free. The caller's thread takes part; the
    others need no Python, and so never wait for the interpreter.
    """

    def __init__(self, count: int, threads: int) -> None:
        self.members = max(1, min(threads, count))
        self._board = new_board(count, self.members)
        self._left = np.zeros(count, np.int64)
        self._threads = [
            threading.Thread(
                target=serve,
                args=(self._board, self._left, member, PATIENCE_NANOSECONDS),
                daemon=True,
            )
            for member in range(1, self.members)
        ]
        for thread in self._threads:
            thread.start()
        # Also at the end of the process, while there is still native code to return from.
        self._leave = weakref.finalize(self, _end, self._board, self._threads)

    def run(self, step: NativeStep, actions: Array) -> None:
        """Do a step of all simulators."""
        step.take(actions)
        table = step.chain.table
        if lead(self._board, self._left, table, PATIENCE_NANOSECONDS):
            for index in np.flatnonzero(self._left).tolist():
                step.finish(index, int(self._left[index]))

    def close(self) -> None:
        """End the threads."""
        self._leave()


def _end(board: Array, threads: list[threading.Thread]) -> None:
    stop(board)
    for thread in threads:
        thread.join()


def run_alone(chain: Chain, left: Array, begin: int, end: int) -> int:
    """Do a chain for some simulators in the calling thread; return how many were left in it.

    How many links are done of those stands in `left`, [simulators].
    """
    count: int = perform(chain.table, left, begin, end)
    return count


class Chain:
    """Links that are done one after another for each simulator."""

    def __init__(self, *links: Link) -> None:
        self.links = links
        places = [(link.address, link.words.ctypes.data) for link in links]
        self.table = np.array(places, np.int64).reshape(-1, 2)  # where functions and words are

    def after(self, done: int) -> Chain:
        """Return what is left to do when some links are done."""
        return Chain(*self.links[done:])
