"""Writing the numeric state: the status line, the last steps, the cells beside, and the paths."""

from __future__ import annotations

import math

from longhaul.core.env import Array
from longhaul.core.native import kernel
from longhaul.tasks.nethack.observation import arrays as at
from longhaul.tasks.nethack.observation.arrays import Recall, Scratch, Screen
from longhaul.tasks.nethack.observation.scene import STEP_X, STEP_Y
from longhaul.tasks.nethack.vocabulary import BLOCKS

_SIZES = tuple(block.size for block in BLOCKS)
BELIEF = 0
HISTORY = BELIEF + _SIZES[0]
NEAR = HISTORY + _SIZES[1]
COMPASS = NEAR + _SIZES[2]
DISTANCE = COMPASS + _SIZES[3]
RULES = DISTANCE + _SIZES[4]
_SHOWN = (at.D_ENTER, at.D_HOSTILE, at.D_OBJECT, at.D_BLANK)


@kernel
def write_numbers(screen: Screen, recall: Recall, scratch: Scratch, state: Array) -> None:
    """Write all of the state but what the rules make of it."""
    _write_body(screen.status, state)
    _write_abilities(screen.status, state)
    _write_rest(screen.status, recall.numbers, scratch.found, state)
    _write_history(recall.numbers, state)
    _write_directions(scratch.around, scratch.ways, state)


@kernel
def clipped(value: float) -> float:
    """Return a value that is kept between -1 and 1."""
    return min(max(value, -1.0), 1.0)


@kernel
def _write_body(status: Array, state: Array) -> None:
    state[0] = status[at.HP] / max(status[at.HP_MAX], 1)
    state[1] = math.log2(1.0 + max(status[at.HP], 0)) / 8.0
    state[2] = math.log2(1.0 + status[at.HP_MAX]) / 8.0
    state[3] = status[at.ENERGY] / max(status[at.ENERGY_MAX], 1)
    state[4] = clipped(status[at.ENERGY] / 20.0)
    state[5] = clipped((10.0 - status[at.ARMOR]) / 20.0)
    state[6] = clipped(status[at.EXPERIENCE_LEVEL] / 14.0)
    state[7] = math.log2(1.0 + max(status[at.EXPERIENCE], 0)) / 16.0
    state[8] = clipped(status[at.DEPTH] / 10.0)
    state[11] = math.log2(1.0 + max(status[at.GOLD], 0)) / 16.0
    state[12] = math.log2(1.0 + max(status[at.SCORE], 0)) / 16.0
    state[13] = clipped(status[at.TURN] / 5000.0)
    state[14] = clipped(status[at.HUNGER] / 4.0)
    state[15] = clipped(status[at.BURDEN] / 3.0)


@kernel
def _write_abilities(status: Array, state: Array) -> None:
    state[16] = clipped(status[at.STRENGTH] / 125.0)
    state[17] = clipped(status[at.DEXTERITY] / 25.0)
    state[18] = clipped(status[at.CONSTITUTION] / 25.0)
    state[19] = clipped(status[at.INTELLIGENCE] / 25.0)
    state[20] = clipped(status[at.WISDOM] / 25.0)
    state[21] = clipped(status[at.CHARISMA] / 25.0)


@kernel
def _write_rest(status: Array, numbers: Array, found: Array, state: Array) -> None:
    state[9] = clipped(numbers[at.R_DEEPEST] / 10.0)
    state[10] = clipped(status[at.DUNGEON] / 4.0)
    state[22] = clipped(status[at.ALIGNMENT])
    state[23] = status[at.X] / at.WIDTH
    state[24] = status[at.Y] / at.HEIGHT
    count, bits = 0, status[at.CONDITION]
    while bits:
        count += bits & 1
        bits >>= 1
    state[25] = clipped(count / 3.0)
    state[26] = found[at.F_PROMPT] == at.ASKS_DIRECTION
    state[27] = found[at.F_PROMPT] == at.ASKS_ITEM
    state[28] = found[at.F_PROMPT] == at.ASKS_CONFIRMATION
    state[29] = found[at.F_FOOD_KEY]


@kernel
def _write_history(numbers: Array, state: Array) -> None:
    state[HISTORY] = clipped(numbers[at.R_SCORE_AGE] / 200.0)
    state[HISTORY + 1] = clipped(numbers[at.R_HURT_AGE] / 50.0)
    state[HISTORY + 2] = clipped(numbers[at.R_HP_CHANGE] / 10.0)
    state[HISTORY + 3] = clipped(math.log2(1.0 + max(numbers[at.R_SCORE_CHANGE], 0)) / 8.0)
    state[HISTORY + 4] = clipped(numbers[at.R_FROZEN] / 5.0)
    state[HISTORY + 5] = clipped(numbers[at.R_LINGER] / 50.0)
    state[HISTORY + 6] = clipped(numbers[at.R_SEARCHES] / 20.0)
    state[HISTORY + 7] = clipped(numbers[at.R_LEVEL_AGE] / 500.0)
    state[HISTORY + 8] = clipped(numbers[at.R_STEP] / max(numbers[at.R_CAP], 1))
    action = numbers[at.R_ACTION]
    walks = 1 <= action <= 16
    state[HISTORY + 9] = STEP_Y[(action - 1) % 8] if walks else 0
    state[HISTORY + 10] = STEP_X[(action - 1) % 8] if walks else 0
    state[HISTORY + 11] = numbers[at.R_MOVED]


@kernel
def _write_directions(around: Array, ways: Array, state: Array) -> None:
    for row in range(len(_SHOWN)):
        for direction in range(8):
            state[NEAR + row * 8 + direction] = around[_SHOWN[row], direction]
    for target in range(at.TARGETS):
        for direction in range(8):
            state[COMPASS + target * 8 + direction] = ways[at.MOVE, target] == direction + 1
        steps = ways[at.STEPS, target]
        state[DISTANCE + target] = 1.0 / steps if steps > 0 else 0.0
