"""How long the steps of environments take, and whether one of them holds up the rest."""

from __future__ import annotations

import numpy as np

from longhaul.core.env import StepTimed, VectorEnv
from longhaul.core.metrics import Metrics

MILLISECONDS = 1e-6  # of a nanosecond


class EnvTimes:
    """Compares environments by the steps that were timed since the last time it was asked."""

    def __init__(self, env: VectorEnv) -> None:
        self._env = env if isinstance(env, StepTimed) else None
        self._before = np.zeros((env.count, 2), np.int64)

    def metrics(self) -> Metrics:
        """Return the times of the middle and the slowest environment; nothing if none is known."""
        if self._env is None:
            return {}
        # Copied: an overlapped collector goes on writing.
        now = self._env.step_times().copy()
        spent, steps = (now - self._before).T
        timed = np.flatnonzero(steps > 0)
        if timed.size < 2:
            return {}
        self._before = now
        means = spent[timed] / steps[timed] * MILLISECONDS
        slowest = int(means.argmax())
        return {
            "time/env_step_ms_median": float(np.median(means)),
            "time/env_step_ms_slowest": float(means[slowest]),
            "time/env_slowest": float(timed[slowest]),
        }
