"""How much faster two threads step the games than one, beside what the machine's cores allow."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from itertools import count

from longhaul.app.peers.vectors import Advance
from longhaul.app.text import columns

SLICE_SECONDS = 0.1
"""Short, so that all four measurements of a round meet the same machine."""
SLICES = 4
Vectors = Callable[[int, int], AbstractContextManager[Advance]]
"""Gives an environment of so many games and threads."""


@dataclass(frozen=True, slots=True)
class Round:
    """Games stepped a second, four ways, one right after the other."""

    one: float  # all games, by one thread
    two: float  # all games, by two threads that share each step
    alone: float  # half of the games, by one thread
    apart: float  # two halves that know nothing of each other, by one thread each

    @property
    def scaling(self) -> float:
        """What the second thread brings."""
        return self.two / self.one

    @property
    def allowed(self) -> float:
        """What the second core brings to work that needs no other."""
        return self.apart / self.alone


@dataclass(frozen=True, slots=True)
class Scaling:
    """What a second thread brings to one kind of observation."""

    name: str
    rounds: tuple[Round, ...]

    @property
    def median(self) -> float:
        """Two threads over one, over all rounds."""
        return statistics.median(one.scaling for one in self.rounds)

    @property
    def allowed(self) -> float:
        """What the cores allowed, over all rounds."""
        return statistics.median(one.allowed for one in self.rounds)


def as_text(measured: tuple[Scaling, ...]) -> str:
    """Return a table of what a second thread brings."""
    rows = [
        (one.name, f"{one.median:.2f}", f"{one.allowed:.2f}", f"{one.median / one.allowed:.0%}")
        for one in measured
    ]
    header = ("a second thread", "brings", "free of each other", "share of that")
    return columns(rows, header=header)


def measure_scaling(name: str, vectors: Vectors, *, games: int, seconds: float) -> Scaling:
    """Measure one kind of observation for about so long, in short slices taken in turn."""
    half = max(1, games // 2)
    slice_seconds = min(SLICE_SECONDS, seconds)
    with ExitStack() as stack:
        one, two, first, second = (
            _Stepping(stack.enter_context(vectors(number, threads)), number, slice_seconds)
            for number, threads in ((games, 1), (games, 2), (half, 1), (half, 1))
        )
        pool = stack.enter_context(ThreadPoolExecutor(1))

        def apart() -> float:
            other = pool.submit(second.rate)
            return first.rate() + other.result()

        def rounds() -> Iterator[Round]:
            while True:
                yield Round(one.rate(), two.rate(), first.rate(), apart())

        wanted = max(3, round(seconds / (slice_seconds * SLICES)))
        taken = rounds()
        next(taken)  # warms up
        return Scaling(name, tuple(next(taken) for _ in range(wanted)))


class _Stepping:
    """An environment that is stepped on and on, with short looks at how fast."""

    def __init__(self, advance: Advance, games: int, seconds: float) -> None:
        self._advance = advance
        self._games = games
        self._seconds = seconds
        self._number = count()

    def rate(self) -> float:
        """Step for a slice; return the games stepped a second."""
        steps, began = 0, time.perf_counter()
        while (took := time.perf_counter() - began) < self._seconds or not steps:
            self._advance(next(self._number))
            steps += 1
        return steps * self._games / took
