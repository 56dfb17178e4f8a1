"""CartPole at a pace that a file sets, for runs that are disturbed while they train."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

DIALS = "LONGHAUL_TEST_DIALS"
"""The variable that names the file."""
PACE, SLOW, CLOCK = range(3)
"""Its numbers: seconds for each step, seconds for a slow step, offset of the wall clock."""
ID = "tests.durability.paced_cartpole:PacedCartPole-v0"


def open_dials(path: Path) -> np.memmap[Any, np.dtype[np.float64]]:
    """Return the numbers of a file, which is made if it is missing."""
    if not path.exists():
        path.write_bytes(bytes(8 * 3))
    return np.memmap(path, np.float64, "r+", shape=(3,))


class PacedCartPole(CartPoleEnv):
    """What it does never depends on the pace."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode=render_mode)
        path = os.environ.get(DIALS)
        self._dials = None if path is None else open_dials(Path(path))

    def step(self, action: Any) -> Any:
        if self._dials is not None:
            seconds = float(self._dials[PACE] + self._dials[SLOW])
            if seconds > 0:
                time.sleep(seconds)
        return super().step(action)  # type: ignore[no-untyped-call]


gym.register(
    "PacedCartPole-v0", "tests.durability.paced_cartpole:PacedCartPole", max_episode_steps=200
)
