"""The env that fails as told, for Gymnasium; apart, because importing Gymnasium takes a while."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from tests.faults.trouble import Trouble, spoiled
from tests.faults.walk import LONGEST

GYMNASIUM_ID = "tests.faults.gymnasium_walk:TroubledWalk-v0"


class TroubledWalk(gym.Env[Any, Any]):
    """The same for Gymnasium."""

    def __init__(self, folder: str = "", dtype: str = "float32") -> None:
        self.observation_space = spaces.Box(0, 50, (2,), np.dtype(dtype).type)
        self.action_space = spaces.Discrete(3)
        self._trouble = Trouble(folder)
        self._trouble.at("construct")
        self._dtype = dtype
        self._position, self._age, self._seed = 0.0, 0, 0

    def _seen(self) -> Any:
        return np.array([abs(self._position), self._age]).astype(self._dtype)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._seed, self._age = seed or 0, 0
        self._position = float(self.np_random.normal())
        garbage = self._trouble.at("reset", seed=self._seed)
        return spoiled(garbage, self._seen(), 0.0)[0], {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self._age += 1
        garbage = self._trouble.at("step", seed=self._seed, step=self._age)
        self._position += int(action) - 1 + float(self.np_random.normal()) / 2
        obs, reward = spoiled(garbage, self._seen(), self._position)
        facts: dict[str, Any] = {}
        if garbage == "fractions":
            obs = obs + 0.5
        if garbage == "huge info":
            facts = {"junk": np.zeros(50_000_000, np.uint8), "end_reason": "y" * 100_000}
        over = abs(self._position) > 3 or garbage == "huge info"
        return obs, reward, over, self._age >= LONGEST, facts

    def close(self) -> None:
        self._trouble.at("close")


gym.register("TroubledWalk-v0", "tests.faults.gymnasium_walk:TroubledWalk")
