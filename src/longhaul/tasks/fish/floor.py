"""Deaths nothing can avoid: the bound every policy is measured against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longhaul.tasks.fish.options import Options
from longhaul.tasks.fish.play import begin_suite
from longhaul.tasks.fish.suites import FishSuite
from longhaul.tasks.fish.world import ACTIONS


@dataclass(frozen=True, slots=True)
class Floor:
    """The fish of a suite that die in the first step whatever they do."""

    doomed: NDArray[np.bool_]  # [episodes, fish]

    @property
    def counts(self) -> NDArray[np.int64]:
        """[episodes], how many fish of each."""
        counts: NDArray[np.int64] = self.doomed.sum(axis=1)
        return counts

    @property
    def best_average(self) -> float:
        """The most the mean share of survivors can be."""
        return float(1 - self.doomed.mean())

    @property
    def best_minimum(self) -> float:
        """The most the share of survivors in the worst episode can be."""
        return float(1 - self.doomed.mean(axis=1).max())


def unavoidable(suite: FishSuite, options: Options) -> Floor:
    """Return the floor of a suite in the world of `options`, by trying all actions.

    A predator's first step depends on nobody's action, a homing one's neither, so that each fish
    can be tried on its own.
    """
    schools, _ = begin_suite(suite, suite.options(options))
    before = schools.snapshot()
    doomed = np.ones(schools.world.alive.shape, np.bool_)
    for action in range(ACTIONS):
        schools.restore(before)
        schools.step(0, schools.count, np.full(doomed.size, action))
        doomed &= ~schools.world.alive
    return Floor(doomed)
