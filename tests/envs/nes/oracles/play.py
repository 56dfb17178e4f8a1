"""Varied play of all 32 stages of Super Mario Bros, the same for every console it is played on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ram = NDArray[np.uint8]

MODE, TASK, FRAME_COUNTER = 0x770, 0x772, 0x09
WORLD, STAGE, AREA = 0x75F, 0x75C, 0x760
START = 0x08
HELD = (0x80, 0x81, 0x82, 0x83, 0x01, 0x40, 0x00, 0x83, 0x82, 0x83, 0x81, 0x20, 0x10)
WORLDS_WITH_ENTRANCE = (1, 2, 4, 7)
"""Where the second stage begins with a walk into a pipe, which the game counts as an area."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One of the 32 stages."""

    world: int
    stage: int

    @property
    def area(self) -> int:
        """The number of the stage's first area in its world."""
        has_entrance = self.world in WORLDS_WITH_ENTRANCE and self.stage >= 2
        return self.stage + has_entrance

    def choose(self, ram: Ram) -> None:
        """Let the game begin with this stage, if it is at its title or about to load."""
        if ram[MODE] == 0 or (ram[MODE] == 1 and ram[TASK] == 0):
            ram[WORLD], ram[STAGE], ram[AREA] = self.world - 1, self.stage - 1, self.area - 1


def all_stages() -> list[Stage]:
    return [Stage(world, stage) for world in range(1, 9) for stage in range(1, 5)]


def title_is_ready(ram: Ram) -> bool:
    """Tell whether the title has been up for a while: a moment that consoles can be aligned at."""
    return bool(ram[TASK] == 3 and ram[FRAME_COUNTER] == 40)


def buttons(ram: Ram, frames: int, seed: int) -> Iterator[int]:
    """Yield what is held in each frame: start at the title, then random buttons for a while."""
    random = np.random.default_rng(seed)
    held, left = 0, 0
    for frame in range(frames):
        if ram[MODE] == 0:
            yield START if frame % 8 < 3 else 0
            continue
        if left == 0:
            held, left = int(random.choice(HELD)), int(random.integers(2, 24))
        left -= 1
        yield held
