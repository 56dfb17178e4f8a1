"""Writing the numeric state: the status line, the last steps, the cells beside, and the paths."""

from __future__ import annotations

import math

from longhaul.core.env import Array
from longhaul.core.native import kernel
from longhaul.tasks.nethack.observation.arrays import (
    ALIGNMENT,
    ARMOR,
    ASKS_CONFIRMATION,
    ASKS_DIRECTION,
    ASKS_ITEM,
    BURDEN,
    CHARISMA,
    CONDITION,
    CONSTITUTION,
    D_BLANK,
    D_ENTER,
    D_HOSTILE,
    D_OBJECT,
    DEPTH,
    DEXTERITY,
    DUNGEON,
    ENERGY,
    ENERGY_MAX,
    EXPERIENCE,
    EXPERIENCE_LEVEL,
    F_FOOD_KEY,
    F_PROMPT,
    GOLD,
    HEIGHT,
    HP,
    HP_MAX,
    HUNGER,
    INTELLIGENCE,
    MOVE,
    R_ACTION,
    R_CAP,
    R_DEEPEST,
    R_FROZEN,
    R_HP_CHANGE,
    R_HURT_AGE,
    R_LEVEL_AGE,
    R_LINGER,
    R_MOVED,
    R_SCORE_AGE,
    R_SCORE_CHANGE,
    R_SEARCHES,
    R_STEP,
    SCORE,
    STEPS,
    STRENGTH,
    TARGETS,
    TURN,
    WIDTH,
    WISDOM,
    Recall,
    Scratch,
    Screen,
    X,
    Y,
)
from longhaul.tasks.nethack.observation.scene import STEP_X, STEP_Y
from longhaul.tasks.nethack.vocabulary import BLOCKS

_SIZES = tuple(block.size for block in BLOCKS)
BELIEF = 0
HISTORY = BELIEF + _SIZES[0]
NEAR = HISTORY + _SIZES[1]
COMPASS = NEAR + _SIZES[2]
DISTANCE = COMPASS + _SIZES[3]
RULES = DISTANCE + _SIZES[4]
_SHOWN = (D_ENTER, D_HOSTILE, D_OBJECT, D_BLANK)


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
    state[0] = status[HP] / max(status[HP_MAX], 1)
    state[1] = math.log2(1.0 + max(status[HP], 0)) / 8.0
    state[2] = math.log2(1.0 + status[HP_MAX]) / 8.0
    state[3] = status[ENERGY] / max(status[ENERGY_MAX], 1)
    state[4] = clipped(status[ENERGY] / 20.0)
    state[5] = clipped((10.0 - status[ARMOR]) / 20.0)
    state[6] = clipped(status[EXPERIENCE_LEVEL] / 14.0)
    state[7] = math.log2(1.0 + max(status[EXPERIENCE], 0)) / 16.0
    state[8] = clipped(status[DEPTH] / 10.0)
    state[11] = math.log2(1.0 + max(status[GOLD], 0)) / 16.0
    state[12] = math.log2(1.0 + max(status[SCORE], 0)) / 16.0
    state[13] = clipped(status[TURN] / 5000.0)
    state[14] = clipped(status[HUNGER] / 4.0)
    state[15] = clipped(status[BURDEN] / 3.0)


@kernel
def _write_abilities(status: Array, state: Array) -> None:
    state[16] = clipped(status[STRENGTH] / 125.0)
    state[17] = clipped(status[DEXTERITY] / 25.0)
    state[18] = clipped(status[CONSTITUTION] / 25.0)
    state[19] = clipped(status[INTELLIGENCE] / 25.0)
    state[20] = clipped(status[WISDOM] / 25.0)
    state[21] = clipped(status[CHARISMA] / 25.0)


@kernel
def _write_rest(status: Array, numbers: Array, found: Array, state: Array) -> None:
    state[9] = clipped(numbers[R_DEEPEST] / 10.0)
    state[10] = clipped(status[DUNGEON] / 4.0)
    state[22] = clipped(status[ALIGNMENT])
    state[23] = status[X] / WIDTH
    state[24] = status[Y] / HEIGHT
    count, bits = 0, status[CONDITION]
    while bits:
        count += bits & 1
        bits >>= 1
    state[25] = clipped(count / 3.0)
    state[26] = found[F_PROMPT] == ASKS_DIRECTION
    state[27] = found[F_PROMPT] == ASKS_ITEM
    state[28] = found[F_PROMPT] == ASKS_CONFIRMATION
    state[29] = found[F_FOOD_KEY]


@kernel
def _write_history(numbers: Array, state: Array) -> None:
    state[HISTORY] = clipped(numbers[R_SCORE_AGE] / 200.0)
    state[HISTORY + 1] = clipped(numbers[R_HURT_AGE] / 50.0)
    state[HISTORY + 2] = clipped(numbers[R_HP_CHANGE] / 10.0)
    state[HISTORY + 3] = clipped(math.log2(1.0 + max(numbers[R_SCORE_CHANGE], 0)) / 8.0)
    state[HISTORY + 4] = clipped(numbers[R_FROZEN] / 5.0)
    state[HISTORY + 5] = clipped(numbers[R_LINGER] / 50.0)
    state[HISTORY + 6] = clipped(numbers[R_SEARCHES] / 20.0)
    state[HISTORY + 7] = clipped(numbers[R_LEVEL_AGE] / 500.0)
    state[HISTORY + 8] = clipped(numbers[R_STEP] / max(numbers[R_CAP], 1))
    action = numbers[R_ACTION]
    walks = 1 <= action <= 16
    state[HISTORY + 9] = STEP_Y[(action - 1) % 8] if walks else 0
    state[HISTORY + 10] = STEP_X[(action - 1) % 8] if walks else 0
    state[HISTORY + 11] = numbers[R_MOVED]


@kernel
def _write_directions(around: Array, ways: Array, state: Array) -> None:
    for row in range(len(_SHOWN)):
        for direction in range(8):
            state[NEAR + row * 8 + direction] = around[_SHOWN[row], direction]
    for target in range(TARGETS):
        for direction in range(8):
            state[COMPASS + target * 8 + direction] = ways[MOVE, target] == direction + 1
        steps = ways[STEPS, target]
        state[DISTANCE + target] = 1.0 / steps if steps > 0 else 0.0
