"""How long the environments take for a step."""

from __future__ import annotations

import time
from collections.abc import Callable

from longhaul.core.metrics import Metrics
from longhaul.engine.summary import quantile

CAPACITY = 10_000
"""Steps that are remembered between two laps; of more, the last ones count."""


class StepTimes:
    """Collects the times of vector steps, by one thread, and tells their spread to another."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._seconds: list[float] = []

    def add(self, seconds: float) -> None:
        """Take the time of one step."""
        self._seconds.append(seconds)

    def take(self) -> Metrics:
        """Return the spread since the last call; nothing if no step was taken."""
        # The list is exchanged in one step, so that the collecting thread loses none.
        taken, self._seconds = self._seconds, []
        if not taken:
            return {}
        ranked = sorted(taken[-CAPACITY:])
        found = {
            f"time/env_step_p{percent}_ms": 1000.0 * quantile(ranked, percent / 100)
            for percent in (50, 90, 99)
        }
        return {**found, "time/env_step_max_ms": 1000.0 * ranked[-1]}
