"""One record for every fish that dies in the first step of an evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Episode
from longhaul.tasks.fish.evaluation.suites import FishSuite, UnavoidableDeaths, begin_suite
from longhaul.tasks.fish.options import FishOptions
from longhaul.tasks.fish.world.school import DEATH_STEPS, FIRST_STEP_PLACES
from longhaul.tasks.fish.world.world import KEEP

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class FirstStepDeath:
    """A fish that died in the first step; places and the predator are as they were after it."""

    fish_idx: int
    predator_index: int
    fish_position: Point
    predator_position: Point
    predator_velocity: Point
    episode: int  # its place in the suite
    seed: int
    distance: float  # between the two
    start_velocity: Point  # the fish's, before the step
    predator_start_velocity: Point
    avoidable: bool  # some action would have saved it
    timestep: int = 1
    iteration: int | None = None
    tail_stage_label: str | None = None
    tail_stage_type: str | None = None

    @staticmethod
    def of(row: Mapping[str, Any]) -> FirstStepDeath:
        """Return the record a log holds."""
        return msgspec.convert(row, FirstStepDeath)


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """How the episodes of a suite begin, whatever the fish do."""

    suite: FishSuite
    fish: NDArray[np.float32]  # [episodes, fish, 4] at the start
    predators: NDArray[np.float32]  # [episodes, predators, 4] at the start
    hunted: NDArray[np.float32]  # the same after the first step
    doomed: NDArray[np.bool_]  # [episodes, fish]
    places: dict[int, int] = field(default_factory=dict)  # of each seed in the suite

    @staticmethod
    def of(suite: FishSuite, options: FishOptions, bound: UnavoidableDeaths) -> FirstSteps:
        """Return the first steps of a suite in a world.

        A predator's first step does not depend on what the fish do in it, so any action shows it.
        """
        schools, _ = begin_suite(suite, suite.options(options))
        fish, predators = schools.world.fish.copy(), schools.world.predators.copy()
        rows = schools.count * schools.spec.rows
        schools.step(0, schools.count, np.full(rows, KEEP))
        places = {start.seed: place for place, start in enumerate(suite.starts)}
        hunted = schools.world.predators.copy()
        return FirstSteps(suite, fish, predators, hunted, bound.doomed, places)

    def deaths(self, episodes: Sequence[Episode]) -> tuple[FirstStepDeath, ...]:
        """Return the records of all fish that died in the first step, in order."""
        return tuple(
            self._record(
                self.places[episode.seed], fish, episode.facts[FIRST_STEP_PLACES][str(fish)]
            )
            for episode in episodes
            for fish, step in enumerate(episode.facts[DEATH_STEPS])
            if step == 1
        )

    def _record(self, place: int, fish: int, position: Sequence[float]) -> FirstStepDeath:
        x, y = position
        distances = [
            math.hypot(x - hunter[0], y - hunter[1]) for hunter in self.hunted[place].tolist()
        ]
        catcher = int(np.argmin(distances))
        hunter = self.hunted[place, catcher].tolist()
        before = self.predators[place, catcher].tolist()
        swam = self.fish[place, fish].tolist()
        return FirstStepDeath(
            fish_idx=fish,
            predator_index=catcher,
            fish_position=(x, y),
            predator_position=(hunter[0], hunter[1]),
            predator_velocity=(hunter[2], hunter[3]),
            episode=place,
            seed=self.suite.starts[place].seed,
            distance=distances[catcher],
            start_velocity=(swam[2], swam[3]),
            predator_start_velocity=(before[2], before[3]),
            avoidable=not self.doomed[place, fish],
        )
