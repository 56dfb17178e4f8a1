"""Varied play of all 32 stages of Super Mario Bros., the same on every console it is played on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ram = NDArray[np.uint8]

MODE, TASK, FRAME_COUNTER = 0x770, 0x772, 0x09
WORLD, STAGE, AREA = 0x75F, 0x75C, 0x760
AREA_POINTER = 0x750
POWER, SIZE_FLAG, STAR = 0x756, 0x754, 0x79F
PLAYING, RUNNING = 1, 3
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
        if ram[MODE] == 0 or (ram[MODE] == PLAYING and ram[TASK] == 0):
            ram[WORLD], ram[STAGE], ram[AREA] = self.world - 1, self.stage - 1, self.area - 1


def all_stages() -> list[Stage]:
    return [Stage(world, stage) for world in range(1, 9) for stage in range(1, 5)]


def is_running(ram: Ram) -> bool:
    """Tell whether Mario is on his way."""
    return bool(ram[MODE] == PLAYING and ram[TASK] == RUNNING)


def equip(ram: Ram, seed: int) -> None:
    """Give Mario nothing, a star or fire, by the seed: he gets further and more is to be seen."""
    if is_running(ram) and seed % 3 == 1:
        ram[STAR] = 0x23
    if is_running(ram) and seed % 3 == 2:
        ram[POWER], ram[SIZE_FLAG] = 2, 0


def title_is_ready(ram: Ram) -> bool:
    """Tell whether the title has been up for a while: a moment that consoles can be aligned at."""
    return bool(ram[TASK] == RUNNING and ram[FRAME_COUNTER] == 40)


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
