"""A Gymnasium environment whose steps cost nothing, to measure everything around it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

EPISODE_STEPS = 1000
GYMNASIUM_IDS = {"longhaul/FreePixels-v0": {"entry_point": f"{__name__}:FreePixels"}}

Pixels = NDArray[np.uint8]


class FreePixels(gym.Env[Pixels, np.int64]):
    """Shows one fixed picture of noise, 4 x 84 x 84, and pays 1 a step."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
        self.action_space = gym.spaces.Discrete(6)
        self._picture = np.zeros((4, 84, 84), np.uint8)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Pixels, dict[str, Any]]:
        """Draw the picture."""
        super().reset(seed=seed)
        self._picture = self.np_random.integers(0, 256, (4, 84, 84), np.uint8)
        self._steps = 0
        return self._picture, {}

    def step(self, action: np.int64) -> tuple[Pixels, float, bool, bool, dict[str, Any]]:
        """Show it again."""
        self._steps += 1
        return self._picture, 1.0, False, self._steps >= EPISODE_STEPS, {}
