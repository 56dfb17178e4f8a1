"""Where the time of a run goes; the only place in the engine that looks at a clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from longhaul.core.metrics import Metrics
from longhaul.core.progress import Collected

STAGES = ("collect", "learn", "evaluate", "checkpoint")


class Watch:
    """Measures the stages of each iteration."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.perf_counter,
        wall: Callable[[], float] = time.time,
        entered: Callable[[str], None] = lambda stage: None,
        left: Callable[[str], None] = lambda stage: None,
    ) -> None:
        self._clock = clock
        self._wall = wall
        self._entered = entered
        self._left = left
        self._began = self._lap_began = clock()
        self._spent: dict[str, float] = {}
        self._parts: dict[str, float] = {}
        self._env_steps = 0
        self._gauges: list[Callable[[], Metrics]] = []

    def add_gauge(self, gauge: Callable[[], Metrics]) -> None:
        """Ask somebody else for clock-dependent metrics at every lap; may be empty."""
        self._gauges.append(gauge)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time inside as spent in stage `name`."""
        self._entered(name)
        began = self._clock()
        try:
            yield
        finally:
            self._spent[name] = self._spent.get(name, 0.0) + self._clock() - began
            self._left(name)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time inside as spent on `name`, which is part of some stage."""
        began = self._clock()
        try:
            yield
        finally:
            self._parts[name] = self._parts.get(name, 0.0) + self._clock() - began

    def lap(self, rollout: Collected) -> Metrics:
        """Return the clock-dependent metrics since the last lap.

        A checkpoint is written after its iteration was recorded, so it counts in the next lap.
        """
        now = self._clock()
        seconds = max(now - self._lap_began, 1e-9)
        self._env_steps += rollout.env_steps
        metrics = {
            "time/wall": self._wall(),
            "time/fps": rollout.env_steps / seconds,
            "time/session_fps": self._env_steps / max(now - self._began, 1e-9),
            "time/session_seconds": now - self._began,
            "time/iteration_seconds": seconds,
        }
        for name in STAGES:
            if name in self._spent:
                metrics[f"time/{name}_seconds"] = self._spent[name]
        metrics["time/other_seconds"] = max(seconds - sum(self._spent.values()), 0.0)
        for name in ("collect", "learn"):
            if name in self._spent:
                metrics[f"time/{name}_share"] = self._spent[name] / seconds
        metrics["time/other_share"] = metrics["time/other_seconds"] / seconds
        for gauge in self._gauges:
            metrics |= gauge()
        metrics |= {f"time/{name}_ms": 1000.0 * spent for name, spent in self._parts.items()}
        self._spent, self._parts = {}, {}
        self._lap_began = now
        return metrics
