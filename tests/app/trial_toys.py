"""Gymnasium environments that fail in one way each, named `tests.app.trial_toys:Trial/<Name>-v0`.

Importing this module registers them, so that other processes can make them by their ids.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import gymnasium as gym
import numpy as np

from tests.app.toys import BrokenStep, NanObservation, Result, TextObservation, Unseeded, Walk


class Frozen(Walk):
    """Shows the same for ever and pays nothing."""

    def step(self, action: Any) -> Result:
        return np.zeros(2, np.float32), 0.0, False, False, {}


class Constant(Walk):
    """Starts alike whatever the seed, as walks from zero do; keeps every promise."""


class Drawn(Walk):
    """Starts somewhere else with every seed."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.position = float(self.np_random.normal())
        return self.look(), {}


class Dying(Drawn):
    """Kills its process in the third step."""

    def step(self, action: Any) -> Result:
        if self.steps == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class Endless(Drawn):
    """Never comes back from its second reset."""

    resets = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.resets += 1
        if self.resets == 2:
            threading.Event().wait()
        return super().reset(seed=seed)


class Talkative(Drawn):
    """Prints in every step."""

    def step(self, action: Any) -> Result:
        os.write(1, b"a word on standard output\n")
        return super().step(action)


for toy in (
    BrokenStep, Constant, Drawn, Dying, Endless, Frozen, NanObservation, Talkative,
    TextObservation, Unseeded,
):  # fmt: skip
    gym.register(f"Trial/{toy.__name__}-v0", f"{toy.__module__}:{toy.__name__}")
