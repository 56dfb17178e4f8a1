"""What depends on clocks and machines and belongs beside the metrics: time left, memory, load."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from longhaul.core.metrics import Metrics
from longhaul.core.progress import Progress


class TimeLeft:
    """Tells how long a run will take at the speed of this process; asked before every iteration."""

    def __init__(self, planned_steps: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self._planned = planned_steps
        self._clock = clock
        self._began: tuple[float, int] | None = None
        self._steps = 0

    def __call__(self, progress: Progress) -> str | None:
        """Take note of the progress; never a reason to stop."""
        self._steps = progress.env_steps
        if self._began is None:
            self._began = (self._clock(), progress.env_steps)
        return None

    def take(self) -> Metrics:
        """Return the time left; nothing while there is no speed to go by."""
        if self._began is None:
            return {}
        began, before = self._began
        done = self._steps - before
        if done <= 0:
            return {}
        left = max(self._planned - self._steps, 0)
        return {"time/eta_seconds": left * (self._clock() - began) / done}


def torch_memory() -> dict[str, float]:
    """Return what torch has taken of every card it uses."""
    found = {}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        for number in range(torch.cuda.device_count()):
            found[f"gpu/{number}_allocated"] = float(torch.cuda.memory_allocated(number))
            found[f"gpu/{number}_reserved"] = float(torch.cuda.memory_reserved(number))
    return found
