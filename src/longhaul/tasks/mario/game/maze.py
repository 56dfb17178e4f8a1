"""How the checks of a maze were passed, by the game's own counters."""

from __future__ import annotations

from longhaul.core.env import Array
from longhaul.core.native import integer, kernel
from longhaul.tasks.mario.game.memory import MAZE_AHEAD, MAZE_PASSED, MAZE_RIGHT
from longhaul.tasks.mario.game.reward import (
    AHEAD_WAS,
    ANSWERED,
    LOOPED,
    MAZE_WAS,
    PASSED_WAS,
    RIGHTS,
    WRONGS,
)


@kernel
def count_answer(own: Array, ram: Array) -> None:
    """Take over how a maze's check was passed, from the counters the game itself keeps.

    A check is decided when the game stops looking ahead for it. In world 7 it counts three of them
    before it decides, and shows by its counters whether each was right; elsewhere the wrong way
    puts Mario back at once.
    """
    right, passed = integer(ram[MAZE_RIGHT]), integer(ram[MAZE_PASSED])
    ahead = integer(ram[MAZE_AHEAD]) > 0
    own[ANSWERED] = 0
    if own[AHEAD_WAS] != 0 and not ahead:
        is_right = own[LOOPED] == 0
        if passed > own[PASSED_WAS]:
            is_right = right > own[MAZE_WAS]
        own[ANSWERED] = 1 if is_right else -1
        own[RIGHTS] += 1 if is_right else 0
        own[WRONGS] += 0 if is_right else 1
    own[MAZE_WAS], own[PASSED_WAS], own[AHEAD_WAS] = right, passed, 1 if ahead else 0
