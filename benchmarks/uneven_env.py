"""CartPole in which some episodes are slow: every step of theirs takes up to 20 ms more."""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np

LONGEST_DELAY = 0.02


class UnevenCartPole(gym.Env[Any, Any]):
    """The same pole; how long a step takes is drawn apart from what it does."""

    def __init__(self, slow_share: float = 0.5) -> None:
        self._pole = gym.make("CartPole-v1")
        self.observation_space = self._pole.observation_space
        self.action_space = self._pole.action_space
        self._slow_share = slow_share
        self._delays = np.random.default_rng(0)
        self._is_slow = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, slow or not."""
        super().reset(seed=seed)
        self._delays = np.random.default_rng(seed)
        self._is_slow = self._delays.random() < self._slow_share
        return self._pole.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and take one's time."""
        if self._is_slow:
            time.sleep(float(self._delays.uniform(0.0, LONGEST_DELAY)))
        obs, reward, terminated, truncated, facts = self._pole.step(action)
        return obs, reward, terminated, truncated, facts


gym.register("UnevenCartPole-v0", "benchmarks.uneven_env:UnevenCartPole")
