"""Playing a suite of episodes to the end, all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Floats, Slots
from longhaul.envs.range_pool import RangePool
from longhaul.tasks.fish.options import Options
from longhaul.tasks.fish.school import SchoolFactory, Schools
from longhaul.tasks.fish.suites import FishSuite

Act = Callable[[Floats], NDArray[np.int64]]
"""Returns the actions [rows] for observations [rows, inputs]."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the episodes of a suite went."""

    suite: FishSuite
    deaths: NDArray[np.int32]  # [episodes, fish]: the step, -1 for survivors
    time_limit: int


def play_suite(suite: FishSuite, options: Options, act: Act, *, threads: int = 1) -> Outcome:
    """Play every episode of the suite in the world of `options`; `act` decides for all fish."""
    options = suite.options(options)
    schools, slots = begin_suite(suite, options)
    pool = RangePool(schools.count, threads)
    try:
        while not schools.over.all():
            actions = act(slots.obs["obs"])

            def step(begin: int, end: int, actions: NDArray[np.int64] = actions) -> None:
                schools.step(begin, end, actions)

            pool.run(step)
    finally:
        pool.close()
    return Outcome(suite, schools.world.deaths.copy(), options.time_limit)


def begin_suite(suite: FishSuite, options: Options) -> tuple[Schools, Slots]:
    """Return schools at the starts of a suite, and the arrays they write into."""
    schools = SchoolFactory(options, follows_settings=False)(len(suite.starts))
    slots = Slots.allocate(schools.spec, schools.count * schools.spec.rows)
    schools.bind(slots)
    schools.reset(
        np.arange(schools.count),
        np.array([start.seed for start in suite.starts]),
        [start.as_value() for start in suite.starts],
    )
    return schools, slots
