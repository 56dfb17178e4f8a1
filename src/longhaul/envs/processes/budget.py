"""How often something may go wrong before it is given up: restarts of workers, and seeds."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

from longhaul.envs.config import ProcessesConfig

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
        """Count one restart; return why there may be no more, or nothing."""
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
        """Count a worker whose environments could not be made; return whether to go on."""
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

    Only failures at the same place count together: a worker that somebody kills three times
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
        """Begin anew with this env's next episode."""
        self._strikes.pop(env, None)
