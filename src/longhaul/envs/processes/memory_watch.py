"""Noticing workers whose memory keeps growing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import psutil

from longhaul.envs.config import ProcessesConfig

MEGABYTE = 2**20


class MemoryWatch:
    """Looks at the workers' memory every few seconds and remembers what they began with."""

    def __init__(self, config: ProcessesConfig, clock: Callable[[], float]) -> None:
        self._limit = config.memory_growth_mb
        self._every = config.memory_check_seconds
        self._clock = clock
        self._next = clock() + self._every if self._limit else float("inf")
        self._first: dict[int, int] = {}  # by pid
        self.growth: dict[int, int] = {}  # megabytes by worker, of those beyond the limit

    def due(self) -> bool:
        """Whether it is time to look again."""
        return self._clock() >= self._next

    def look(self, pids: Iterable[tuple[int, int]]) -> None:
        """Measure these workers, given with their pids."""
        self._next = self._clock() + self._every
        present = dict(pids)
        self._first = {pid: rss for pid, rss in self._first.items() if pid in present.values()}
        self.growth = {}
        for worker, pid in present.items():
            with suppress(psutil.Error):
                resident = psutil.Process(pid).memory_info().rss
                first = self._first.setdefault(pid, resident)
                grown = (resident - first) // MEGABYTE
                if grown > self._limit:
                    self.growth[worker] = grown

    def is_urgent(self, worker: int) -> bool:
        """Whether a worker has grown so much that an episode's end is not waited for."""
        return self.growth.get(worker, 0) > 2 * self._limit
