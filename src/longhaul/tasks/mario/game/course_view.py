"""Where in the game Mario is, as a few numbers: stage, area, and a maze's counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from longhaul.core.env import Array
from longhaul.core.errors import ConfigError
from longhaul.core.labor import Labor
from longhaul.core.native import fetch, integer
from longhaul.tasks.mario.game import memory as ram_at
from longhaul.tasks.mario.game.memory import game_stamp
from longhaul.tasks.mario.game.reward import LOOPS, RIGHTS, WRONGS
from longhaul.tasks.mario.game.stages import Stage

if TYPE_CHECKING:
    from torch import Tensor

    from longhaul.core.rollout import TensorTree

COURSE = "course"
"""The part of an observation with these numbers."""

WORLDS, STAGES, AREA_TYPES, AREA_BITS = 8, 4, 4, 5
COUNTERS = 6
COURSE_SIZE = WORLDS + STAGES + AREA_TYPES + AREA_BITS + COUNTERS
CHECKS = 3.0
"""Checks that world 7 counts before it decides."""
MOST_ANSWERS = 8
"""Answers of an episode that are counted."""


class CourseShowing(NamedTuple):
    """What is read and written to show where games are."""

    consoles: Array  # [N, SIZE] uint8, whose memory comes first
    figures: Array  # [N, FIGURES] int32
    course: Array  # [N, COURSE_SIZE] float32


def _build(stamp: int) -> Labor:
    def show_course(pointer: Any, index: int, member: int) -> int:
        """Write where a game is: one-hot, the area's number in bits, counters from 0 to 1."""
        _ = stamp
        showing = fetch(pointer)
        ram, own, out = showing.consoles[index], showing.figures[index], showing.course[index]
        for place in range(COURSE_SIZE):
            out[place] = 0.0
        out[integer(ram[ram_at.WORLD_NUMBER]) % WORLDS] = 1.0
        out[WORLDS + integer(ram[ram_at.STAGE_NUMBER]) % STAGES] = 1.0
        out[WORLDS + STAGES + integer(ram[ram_at.AREA_TYPE]) % AREA_TYPES] = 1.0
        base = WORLDS + STAGES + AREA_TYPES
        for bit in range(AREA_BITS):
            out[base + bit] = float((integer(ram[ram_at.AREA_OFFSET]) >> bit) & 1)
        base += AREA_BITS
        out[base] = integer(ram[ram_at.MAZE_RIGHT]) / CHECKS
        out[base + 1] = integer(ram[ram_at.MAZE_PASSED]) / CHECKS
        out[base + 2] = 1.0 if ram[ram_at.MAZE_AHEAD] > 0 else 0.0
        out[base + 3] = min(integer(own[RIGHTS]), MOST_ANSWERS) / MOST_ANSWERS
        out[base + 4] = min(integer(own[WRONGS]), MOST_ANSWERS) / MOST_ANSWERS
        out[base + 5] = min(integer(own[LOOPS]), MOST_ANSWERS) / MOST_ANSWERS
        return 0

    return show_course


show_course = _build(game_stamp())


def on_stages(stages: Iterable[Stage]) -> Callable[[TensorTree], Tensor]:
    """Return a function that says in which observations [n] Mario is on one of the stages."""
    wanted = tuple(stages)

    def covers(obs: TensorTree) -> Tensor:
        if COURSE not in obs:
            raise ConfigError(
                "several teachers need options.course_numbers = true: without it no observation "
                "names its stage"
            )
        course = obs[COURSE] > 0
        found = course.new_zeros(len(course))
        for stage in wanted:
            found |= course[:, stage.world - 1] & course[:, WORLDS + stage.number - 1]
        return found

    return covers
