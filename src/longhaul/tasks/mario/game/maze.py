"""How the checks of a maze were passed, by the game's own counters."""

from __future__ import annotations

from longhaul.core.env import Array
from longhaul.core.native import integer, kernel
from longhaul.tasks.mario.game import reward as at
from longhaul.tasks.mario.game.memory import MAZE_AHEAD, MAZE_PASSED, MAZE_RIGHT


@kernel
def count_answer(own: Array, ram: Array) -> None:
    """Take over how a maze's check was passed, from the counters the game itself keeps.

    A check is decided when the game stops looking ahead for it. In world 7 it counts three of them
    before it decides, and shows by its counters whether each was right; elsewhere the wrong way
    puts Mario back at once.
    """
    right, passed = integer(ram[MAZE_RIGHT]), integer(ram[MAZE_PASSED])
    ahead = integer(ram[MAZE_AHEAD]) > 0
    own[at.ANSWERED] = 0
    if own[at.AHEAD_WAS] != 0 and not ahead:
        is_right = own[at.LOOPED] == 0
        if passed > own[at.PASSED_WAS]:
            is_right = right > own[at.MAZE_WAS]
        own[at.ANSWERED] = 1 if is_right else -1
        own[at.RIGHTS] += 1 if is_right else 0
        own[at.WRONGS] += 0 if is_right else 1
    own[at.MAZE_WAS], own[at.PASSED_WAS], own[at.AHEAD_WAS] = right, passed, 1 if ahead else 0
