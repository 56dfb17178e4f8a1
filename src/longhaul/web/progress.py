"""How much of a run is done, and how long the rest takes."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass

import msgspec

from longhaul.runs.heartbeat import Beat

SPEEDS = ("time/session_fps", "time/fps")
"""Rates by which the rest is estimated, the steadier one first."""


@dataclass(frozen=True, slots=True)
class Goal:
    """How long a run is to be trained; iterations count if there are any."""

    total_timesteps: int = 0
    total_iterations: int = 0

    def share(self, *, steps: float, iteration: float) -> float | None:
        """Return how much is done, from 0 to 1; None if no end is known."""
        done, total = (
            (iteration, self.total_iterations)
            if self.total_iterations
            else (steps, self.total_timesteps)
        )
        return min(done / total, 1.0) if total > 0 else None

    def seconds_left(self, beat: Beat, *, steps: float, iteration: float) -> float | None:
        """Return how long the rest takes at the speed of this session; None if nobody knows."""
        share = self.share(steps=steps, iteration=iteration)
        speed = next((beat.rates[name] for name in SPEEDS if beat.rates.get(name)), 0.0)
        if not share or speed <= 0:
            return None
        return steps * (1 - share) / share / speed


def read_goal(config: bytes) -> Goal:
    """Return what a config says of the end; nothing if it is damaged."""
    try:
        return msgspec.convert(tomllib.loads(config.decode()), Goal)
    except (msgspec.ValidationError, ValueError, RecursionError):
        return Goal()
