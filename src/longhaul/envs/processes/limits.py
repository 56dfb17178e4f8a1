"""Limits of worker processes: restarts, deadlines, memory and shared memory."""

from __future__ import annotations

import resource
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from longhaul.core.errors import ResourceError
from longhaul.core.system import CGROUP, processes_left
from longhaul.envs.config import ProcessesConfig
from longhaul.envs.processes.mailbox import (
    BUCKETS,
    CONSTRUCT_TIMES,
    RESET_TIMES,
    STEP_TIMES,
)
from longhaul.envs.processes.messages import WorkerStage

MINUTE = 60.0


class RestartBudget:
    """Restarts of each worker: in a row without a step in between, and within a minute."""

    def __init__(self, config: ProcessesConfig, clock: Callable[[], float]) -> None:
        self._config = config
        self._clock = clock
        self._in_a_row: Counter[int] = Counter()
        self._construct_failures: Counter[int] = Counter()
        self._times: dict[int, deque[float]] = {}

    def spend(self, worker: int) -> str:
        """Count one restart; return why no more are allowed, or an empty text."""
        now = self._clock()
        times = self._times.setdefault(worker, deque())
        while times and now - times[0] > MINUTE:
            times.popleft()
        times.append(now)
        self._in_a_row[worker] += 1
        if self._in_a_row[worker] > self._config.restarts_in_a_row:
            return f"it was restarted {self._config.restarts_in_a_row} times without a single step"
        if len(times) > self._config.restarts_per_minute:
            return f"it was restarted {self._config.restarts_per_minute} times within a minute"
        return ""

    def construct_failed(self, worker: int) -> bool:
        """Count a worker whose environments could not be made; return whether to continue."""
        self._construct_failures[worker] += 1
        return self._construct_failures.total() <= self._config.construct_restarts

    def constructed(self, worker: int) -> None:
        """Forget a worker's failures to make its environments."""
        self._construct_failures.pop(worker, None)

    def stepped(self, worker: int | None = None) -> None:
        """Forget what came in a row: a step was done by this worker, or by all."""
        if worker is not None:
            self._in_a_row.pop(worker, None)
        elif self._in_a_row:
            self._in_a_row.clear()


class StrikeBook:
    """Failures of each running episode, by the place they happened at.

    Only failures at the same place count together: a worker that is killed three times from outside
    during one long episode says nothing about its seed.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._strikes: dict[int, Counter[tuple[int, str, int]]] = {}

    def strike(self, env: int, seed: int, stage: str, step: int) -> bool:
        """Count a failure; return whether it was one too many."""
        places = self._strikes.setdefault(env, Counter())
        places[seed, stage, step] += 1
        return places[seed, stage, step] >= self._most

    def forget(self, env: int) -> None:
        """Forget the failures of this env's episode."""
        self._strikes.pop(env, None)


MEGABYTE = 2**20


class MemoryWatch:
    """Checks the growth of the workers' memory every few seconds."""

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
        """Whether a worker has grown so much that it is replaced before an episode's end."""
        return self.growth.get(worker, 0) > 2 * self._limit


DESCRIPTORS_PER_WORKER = 4
DESCRIPTORS_BESIDE = 64
PROCESSES_BESIDE = 8


def check_room(workers: int, cgroup: Path = CGROUP) -> None:
    """Raise if file descriptors or processes would run out; raise a soft limit where allowed."""
    needed = workers * DESCRIPTORS_PER_WORKER + DESCRIPTORS_BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise ResourceError(
                f"{workers} worker processes need about {needed} file descriptors, but the limit "
                f"is {hard}; raise it (`ulimit -n {needed}`) or set env.processes.workers lower"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    left = processes_left(cgroup)
    if left is not None and left < workers + PROCESSES_BESIDE:
        raise ResourceError(
            f"{workers} worker processes are more than the {left} the container may still start; "
            "raise its pids limit or set env.processes.workers lower"
        )


FACTOR = 20
RARE = 0.001
_TIMES = {
    WorkerStage.STEP: STEP_TIMES,
    WorkerStage.REPLAY: STEP_TIMES,
    WorkerStage.IDLE: STEP_TIMES,  # a worker that does not start its order
    WorkerStage.RESET: RESET_TIMES,
    WorkerStage.CONSTRUCT: CONSTRUCT_TIMES,
}


class Deadlines:
    """The longest silence of a worker in each stage.

    Workers count their timings into buckets, each twice as wide as the one before, and these
    are read only when a worker is late. A bucket's upper end is used, so a deadline may be up to
    twice as long as with exact timings, never shorter.
    """

    def __init__(self, config: ProcessesConfig) -> None:
        self._config = config
        self._past = {times: [0] * BUCKETS for times in set(_TIMES.values())}

    def remember(self, words: Sequence[int] | memoryview) -> None:
        """Keep the timings of a worker that is about to be replaced."""
        for times, counts in self._past.items():
            for bucket in range(BUCKETS):
                counts[bucket] += words[times + bucket]

    def seconds(self, stage: WorkerStage, own: memoryview, fleet: Sequence[memoryview]) -> float:
        """Return how long a worker may stay in `stage` without a sign of progress.

        A process that has not completed this stage before gets the whole configured time: compilers
        and caches make the first time slow.
        """
        cap = self._cap(stage)
        times = _TIMES.get(stage)
        if times is None or not any(own[times + bucket] for bucket in range(BUCKETS)):
            return cap
        counts = list(self._past[times])
        for words in fleet:
            for bucket in range(BUCKETS):
                counts[bucket] += words[times + bucket]
        return min(cap, max(self._config.least_deadline_seconds, FACTOR * _rare_seconds(counts)))

    def _cap(self, stage: WorkerStage) -> float:
        config = self._config
        match stage:
            case WorkerStage.BOOT | WorkerStage.IMPORT | WorkerStage.CONSTRUCT:
                return config.construct_seconds
            case WorkerStage.RESET | WorkerStage.SNAPSHOT | WorkerStage.FRAME:
                return config.reset_seconds
            case WorkerStage.CLOSE:
                return config.close_seconds
            case WorkerStage.STEP | WorkerStage.REPLAY | WorkerStage.IDLE:
                return config.step_seconds


def _rare_seconds(counts: Sequence[int]) -> float:
    """Return a time that only one in a thousand exceeds."""
    beyond = sum(counts) * RARE
    for bucket in range(len(counts) - 1, -1, -1):
        if counts[bucket] > beyond:
            return float(2**bucket) / 1e9
        beyond -= counts[bucket]
    return 0.0
