"""The reference run's settings, for tests that replay what it did."""

from __future__ import annotations

from longhaul.tasks.fish.training.curriculum import Curriculum
from longhaul.tasks.fish.training.options import (
    BoostOptions,
    GateOptions,
    LadderOptions,
    SchoolPhase,
)

CURRICULUM = tuple(
    SchoolPhase(fish, iterations)
    for fish, iterations in ((15, 9), (20, 10), (25, 9), (25, 8), (25, 8), (25, 8), (25, 8))
)
ITERATIONS = 60
FISH = 1152  # 12 episodes of 96

LADDER = LadderOptions(
    phase_targets=(0.0, 0.02, 0.04, 0.05, 0.055, 0.06, 0.065),
    ramp_phases=(6, 7),
    phase_plateaus=(0, 0, 6, 6, 4, 0, 0),
    lock_value=0.04,
    lock_until=28,
)
BOOST = BoostOptions(
    phase_speeds=((3, 0.76), (4, 0.78), (5, 0.82), (6, 0.82), (7, 0.82)),
    phase_floors=((3, 0.76), (4, 0.78), (5, 0.80), (6, 0.80), (7, 0.80)),
    floor=0.75,
    penalty_caps=((0.05, 0.8),),
)
GATE = GateOptions(
    phase_allowance=(4, 5, 6, 7),
    required_successes=2,
    freeze_iterations=5,
    success_freeze_iterations=2,
    step_one="all",
    success_step_one=18,
    success_step_one_ratio=0.02,
    success_early_death=0.10,
    success_early_death_window=3,
    success_p10=70,
    success_median_window=4,
    failure_p10=95,
    failure_min_final=0.5,
    failure_tolerance=2,
)


def curriculum() -> Curriculum:
    return Curriculum.of(CURRICULUM, fish=25, total_iterations=ITERATIONS)
