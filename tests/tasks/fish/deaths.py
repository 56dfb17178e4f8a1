"""Made-up deaths for tests."""

from __future__ import annotations

import math

from longhaul.tasks.fish.evaluation.first_step import FirstStepDeath


def death(angle: float, pace: float, *, seed: int = 1, iteration: int = 8) -> FirstStepDeath:
    """Return a death before a predator with this heading in degrees and speed."""
    turn = math.radians(angle)
    velocity = (pace * math.cos(turn), pace * math.sin(turn))
    return FirstStepDeath(
        fish_idx=seed,
        predator_index=0,
        fish_position=(0.5, 0.0),
        predator_position=(0.0, 0.0),
        predator_velocity=velocity,
        episode=seed,
        seed=seed,
        distance=0.5,
        start_velocity=(1.0, 0.0),
        predator_start_velocity=velocity,
        avoidable=seed % 2 == 0,
        iteration=iteration,
    )
