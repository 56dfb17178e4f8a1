"""A small environment with one fault in store, for the first one to reach its twentieth step."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

FAULT_STEP = 20
EPISODE_STEPS = 50

Place = NDArray[np.float32]


class FaultyWalk(gym.Env[Place, np.int64]):
    """A random walk that keeps every promise, apart from one fault.

    The fault happens to one environment, once: the first that can make the file `claim`. It is gone
    afterwards, as after a machine's hiccup, so a retry succeeds.
    """

    def __init__(self, fault: str = "none", claim: str = "") -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self._fault = fault
        self._claim = claim
        self._place = 0.0
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Place, dict[str, Any]]:
        """Begin at a random place."""
        super().reset(seed=seed)
        self._place = float(self.np_random.normal())
        self._steps = 0
        return self._look(), {}

    def step(self, action: np.int64) -> tuple[Place, float, bool, bool, dict[str, Any]]:
        """Walk; in the twentieth step, perhaps, fail."""
        self._steps += 1
        if self._steps == FAULT_STEP and self._fault != "none" and self._is_first():
            commit(self._fault)
        self._place += float(self.np_random.normal()) + float(action)
        return self._look(), self._place, self._steps >= EPISODE_STEPS, False, {}

    def _look(self) -> Place:
        return np.array([self._place, self._steps], np.float32)

    def _is_first(self) -> bool:
        try:
            Path(self._claim).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def commit(fault: str) -> None:
    """Do to this process what the fault says."""
    match fault:
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hung":
            time.sleep(3600)
        case "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        case _:
            raise RuntimeError("the simulator lost its ball")


gym.register("benchmarks/FaultyWalk-v0", entry_point="benchmarks.fault_env:FaultyWalk")
