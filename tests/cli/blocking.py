"""An environment that stops in mid-step until its process is ended."""

from __future__ import annotations

import itertools
import signal
from pathlib import Path
from typing import Any

import gymnasium as gym

from tests.app.toys import Result, Walk


class Blocking(Walk):
    """Stays in its 20th step, and makes a file when it gets there and one per signal it hears."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = Path(folder)
        self.taken = 0

    def step(self, action: Any) -> Result:
        self.taken += 1
        if self.taken == 20:
            for heard in itertools.count():
                (self.folder / f"heard-{heard}").touch()
                signal.pause()
        return super().step(action)


gym.register("Blocking-v0", "tests.cli.blocking:Blocking")
