"""Small batches of schools for tests, and ways to put fish where a test wants them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longhaul.core.env import Floats, Start, StepBuffers
from longhaul.core.settings import Settings
from longhaul.tasks.fish.options import FishOptions, FishStartOptions, NeighborOptions
from longhaul.tasks.fish.world.school import SchoolFactory, Schools
from tests.tasks.fish.literal import LiteralSchool

TRAINING_START = FishStartOptions(drops_last_sector=True)
PLAIN_START = FishStartOptions(
    escape_boost=False,
    spawn_jitter=0.0,
    pre_roll_steps=0,
    heading_bias=(),
    pre_roll_speed_bias=(),
)
"""The original environment's own defaults: everybody anywhere, the predator in the middle."""
REFERENCE_OPTIONS = FishOptions(inputs="world", neighbors=NeighborOptions(inputs=False))
"""The inputs reference policies read."""


@dataclass(frozen=True)
class Tank:
    """Schools bound to arrays one can read."""

    schools: Schools
    slots: StepBuffers

    @property
    def obs(self) -> Floats:
        obs: Floats = self.slots.obs["obs"]
        return obs

    def step(self, actions: int | list[int]) -> None:
        rows = self.schools.count * self.schools.spec.rows
        self.schools.step(0, self.schools.count, np.broadcast_to(actions, rows).astype(np.int64))

    def copy_from(self, literal: LiteralSchool) -> None:
        world = self.schools.world
        for row, fish in enumerate(literal.fish):
            world.fish[0, row] = (*fish.position, *fish.velocity)
        world.predators[0, 0] = (*literal.predator.position, *literal.predator.velocity)
        self.schools.restore(self.schools.snapshot())


def tank(
    options: FishOptions,
    *,
    seeds: tuple[int, ...] = (1,),
    starts: tuple[Start | None, ...] | None = None,
    settings: Settings | None = None,
) -> Tank:
    """Return schools with these options at the beginning of the episodes of `seeds`."""
    schools = SchoolFactory(options)(len(seeds))
    slots = StepBuffers.allocate(schools.spec, schools.count * schools.spec.rows)
    schools.bind(slots)
    if settings is not None:
        schools.configure(settings)
    values: list[Start | None] = [None] * len(seeds) if starts is None else list(starts)
    schools.reset(np.arange(len(seeds)), np.array(seeds), values)
    return Tank(schools, slots)


def placed(
    options: FishOptions,
    fish: tuple[tuple[float, float, float, float], ...],
    *predators: tuple[float, float, float, float],
) -> Tank:
    """Return one school with bodies (x, y, vx, vy) where they are put."""
    return tank(options, starts=(("position", fish, predators),))
