"""The arrays the native code works on, and the names of their rows and columns.

All have a first axis of games; one game at a time is looked at.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from longhaul.core.env import Array
from longhaul.core.native import kernel_stamp
from longhaul.tasks.nethack.vocabulary import (
    ACTION_COUNT,
    ATOM_COUNT,
    GLYPH_CLASSES,
    MESSAGE_WORDS,
    PACK_CLASSES,
    PLAYER_ATOMS,
    STATE_SIZE,
)

HEIGHT, WIDTH = 21, 79
STRIDE = WIDTH + 2
"""Between two rows of a chart, which has a border all around."""
CHARTED = (HEIGHT + 2) * STRIDE

# Rows of the glyph table.
KIND, TRAITS, LEVEL, WALK = range(4)
TABLE_ROWS = 4

# What a glyph's traits may be, as bits.
TOUCH, EXPLODES, PEACEFUL, SHOPKEEPER, PICKED_UP, SAFE_MEAL, THROWN = (1 << bit for bit in range(7))

# How a cell can be entered.
CLOSED_OFF, OPEN, STRAIGHT = range(3)
"""Not at all, from all sides, or not diagonally, as a door."""

# The status line, by what NLE calls its columns; glyphs.py refuses a game that differs.
X, Y = 0, 1
STRENGTH, DEXTERITY, CONSTITUTION, INTELLIGENCE, WISDOM, CHARISMA = 3, 4, 5, 6, 7, 8
SCORE, HP, HP_MAX, DEPTH, GOLD, ENERGY, ENERGY_MAX, ARMOR = 9, 10, 11, 12, 13, 14, 15, 16
EXPERIENCE_LEVEL, EXPERIENCE, TURN, HUNGER, BURDEN, DUNGEON, DUNGEON_LEVEL = range(18, 25)
CONDITION, ALIGNMENT = 25, 26

# What is remembered of a game between two steps.
(
    R_STEP,
    R_TURN,
    R_SCORE,
    R_HP,
    R_X,
    R_Y,
    R_LEVEL,
    R_FROZEN,
    R_SCORE_AGE,
    R_HURT_AGE,
    R_ANCHOR_X,
    R_ANCHOR_Y,
    R_LINGER,
    R_SEARCHES,
    R_LEVEL_AGE,
    R_ACTION,
    R_MEAL_TURN,
    R_LOCK_AGE,
    R_DEEPEST,
    R_HP_CHANGE,
    R_SCORE_CHANGE,
    R_MOVED,
    R_CAP,
    R_RESTING,
    R_PRAYED,
    R_ATE,
    R_KICK,
    R_SPOT_Y,
    R_SPOT_X,
    R_SPOT_LEFT,
    R_SPOTS,
    R_SPARED,
    R_SKILL,
    R_PREY,
    R_CORPSE,
) = range(35)
RECALLED = 35
NEVER = 1_000_000
"""The age of what did not happen."""

# What is marked on the map of the present level, as bits.
VISITED, TAKEN, BLOCKED, OCCUPIED, SPARED = 1, 2, 4, 8, 16
"""The hero was there; was there since the present object lies there; a locked door; a
creature was there when last seen; one is there that the game called peaceful."""

# What a cell of the chart holds, as bits, after how it can be entered.
WAY = 3
HOSTILE_HERE, DOWN_HERE, THING_HERE, GOLD_HERE, UNVISITED, UNKNOWN, SHUT, PEACEFUL_HERE = (
    1 << bit for bit in range(2, 10)
)

# Directions, as eight flags each.
(
    D_ENTER,
    D_HOSTILE,
    D_OBJECT,
    D_BLANK,
    D_TOUCH,
    D_PEACEFUL,
    D_DOOR,
    D_AWAY,
) = range(8)
DIRECTION_SETS = 8

# Targets of paths.
FRONTIER, DOWNWARD, THING, FOE = range(4)
TARGETS = 4
MOVE, STEPS = range(2)
"""Rows of what is known of the way to a target."""
# Further targets, which only skills have.
PREY, UPWARD, NARROW, SPOT, LOCKED, BOULDER = range(6)
"""A foe that may be hit, the way up, a corridor or doorway, a place to search, a locked door, a
boulder that may be pushed."""
ERRANDS = 6

# What is found of the monsters that may be hit.
(
    S_ADJACENT,
    S_SAFE,
    S_NEAREST,
    S_WEAKEST,
    S_WEAKEST_LEVEL,
    S_STRONGEST_LEVEL,
    S_FOES,
    S_SPOT_VALUE,
) = range(8)
SIGHTED = 8
"""How many stand beside, are seen, how far the nearest is, the move towards the weakest one beside,
the levels of the weakest and the strongest beside, how many are seen of all kinds, and what the
place to search is worth, in hundredths."""
P_Y, P_X, P_GLYPH, P_TURN = range(4)
"""Columns of what is remembered of a creature the game called peaceful."""
REMEMBERED = 16

# What a look at the scene found, as counts and flags.
(
    F_IN_VIEW,
    F_IN_LINE,
    F_ADJACENT,
    F_STRONG,
    F_TOUCH,
    F_EXPLODER,
    F_PEACEFUL,
    F_PET,
    F_SHOPKEEPER,
    F_UNSEEN,
    F_DOWN_SEEN,
    F_UP_SEEN,
    F_OBJECT_NEAR,
    F_GOLD_REACHED,
    F_BOULDER_NEAR,
    F_DOOR_OPEN,
    F_DOOR_CLOSED,
    F_TRAP_NEAR,
    F_WAYS,
    F_ALTAR,
    F_FOUNTAIN,
    F_UNDER,
    F_PLACE,
    F_PROMPT,
    F_FOOD_KEY,
) = range(25)
FOUND = 25
NO_PROMPT, ASKS_DIRECTION, ASKS_ITEM, ASKS_CONFIRMATION = range(4)
NOWHERE, ROOM, CORRIDOR = range(3)


class Kinds(NamedTuple):
    """The numbers of the glyph classes, which the compiler takes as constants."""

    outside: int
    blank: int
    wall: int
    floor: int
    corridor: int
    doorway: int
    open_door: int
    closed_door: int
    stairs_up: int
    stairs_down: int
    altar: int
    fountain: int
    liquid: int
    trap: int
    barrier: int
    gold: int
    object: int
    corpse: int
    boulder: int
    statue: int
    hostile: int
    peaceful: int
    pet: int
    unseen: int
    hero: int
    effect: int


KINDS = Kinds(*range(len(GLYPH_CLASSES)))


class Screen(NamedTuple):
    """What the game shows; these are its own buffers."""

    glyphs: Array  # [21, 79] int16
    status: Array  # [27] int64
    message: Array  # [256] uint8
    modes: Array  # [3] int32: waits for one key, for a line, for a space
    item_classes: Array  # [55] uint8
    item_letters: Array  # [55] uint8
    item_glyphs: Array  # [55] int16


class Recall(NamedTuple):
    """What is remembered of the present game."""

    numbers: Array  # [RECALLED] int64
    ground: Array  # [21, 79] int16: the last glyph seen that was no creature
    marks: Array  # [21, 79] uint8
    killed: Array  # [21, 79] int64: the turn in which a corpse appeared in place of a monster
    searched: Array  # [21, 79] uint8: how often the hero searched beside the cell
    tries: Array  # [21, 79] uint8: kicks against a door, pushes of a boulder
    chased: Array  # [21, 79] uint8: steps towards a foe in this cell
    peaceful: Array  # [REMEMBERED, 4] int64: whom the game called peaceful, and when last seen

    @staticmethod
    def allocate() -> Recall:
        """Return an empty memory."""
        return Recall(
            np.zeros(RECALLED, np.int64),
            np.zeros((HEIGHT, WIDTH), np.int16),
            np.zeros((HEIGHT, WIDTH), np.uint8),
            np.zeros((HEIGHT, WIDTH), np.int64),
            np.zeros((HEIGHT, WIDTH), np.uint8),
            np.zeros((HEIGHT, WIDTH), np.uint8),
            np.zeros((HEIGHT, WIDTH), np.uint8),
            np.zeros((REMEMBERED, 4), np.int64),
        )


class Scratch(NamedTuple):
    """Room for what one look finds."""

    found: Array  # [FOUND] int64
    around: Array  # [DIRECTION_SETS, 8] uint8
    chart: Array  # [CHARTED] int16: what each cell holds, with a border that cannot be entered
    first: Array  # [CHARTED] int8: the first move of the path to a cell, 0 if there is none
    length: Array  # [CHARTED] int16
    queue: Array  # [CHARTED] int16
    ways: Array  # [2, TARGETS] int64: the first move towards each target, the path's length
    best: Array  # [8] float32: the best coverages
    errands: Array  # [2, ERRANDS] int64: as `ways`, of the further targets
    sighted: Array  # [SIGHTED] int64
    wants: Array  # [operators] float32: how much the rules call for each

    @staticmethod
    def allocate(operators: int) -> Scratch:
        """Return zeroed room for a look by rules of so many operators."""
        return Scratch(
            np.zeros(FOUND, np.int64),
            np.zeros((DIRECTION_SETS, 8), np.uint8),
            np.zeros(CHARTED, np.int16),
            np.zeros(CHARTED, np.int8),
            np.zeros(CHARTED, np.int16),
            np.zeros(CHARTED, np.int16),
            np.zeros((2, TARGETS), np.int64),
            np.zeros(8, np.float32),
            np.zeros((2, ERRANDS), np.int64),
            np.zeros(SIGHTED, np.int64),
            np.zeros(operators, np.float32),
        )


class ShownArrays(NamedTuple):
    """What the player is shown; views of the slots of one row."""

    state: Array  # [STATE_SIZE] float32
    atoms: Array  # [ATOM_COUNT] uint8
    mask: Array  # [ACTION_COUNT] bool
    crop: Array  # [size, size] uint8, empty without a map view
    words: Array  # [MESSAGE_WORDS] float32, empty without a map view
    pack: Array  # [PACK_CLASSES] float32, empty without a map view
    keys: Array  # [skills] int64: the action each skill takes next, 0 if it does not apply
    figures: Array  # [skill figures] float32, empty without skills

    @staticmethod
    def allocate(crop: int = 0) -> ShownArrays:
        """Return zeroed arrays, with a map view of this size if it is not 0, without skills."""
        return ShownArrays(
            np.zeros(STATE_SIZE, np.float32),
            np.zeros(ATOM_COUNT, np.uint8),
            np.ones(ACTION_COUNT, np.bool_),
            np.zeros((crop, crop), np.uint8),
            np.zeros(MESSAGE_WORDS if crop else 0, np.float32),
            np.zeros(PACK_CLASSES if crop else 0, np.float32),
            np.zeros(0, np.int64),
            np.zeros(0, np.float32),
        )


class Knowledge(NamedTuple):
    """What is known before the game begins."""

    table: Array  # [TABLE_ROWS, glyphs] uint8
    keys: Array  # [ACTION_COUNT] uint8: the key each action sends
    classes: Array  # [CLASSES_NAMED] int64: the game's numbers of the item classes
    landmarks: Array  # [3] int64: the glyphs of nothing, stairs up and stairs down
    conditions: Array  # [5] int64: bits of blind, confused, stunned, hallucinating, dying
    bits: Array  # [rules, 6] uint64: atoms of player and scene that are needed, help, forbid
    priors: Array  # [rules] float32
    experts: Array  # [rules] int64
    operators: Array  # [rules] int64
    actions: Array  # [operators, actions of the larger set] bool
    aims: Array  # [operators] int64: the place in rules.AIMS


# Columns of `Knowledge.classes`.
C_WEAPON, C_ARMOR, C_RING, C_AMULET, C_TOOL, C_FOOD, C_POTION, C_SCROLL, C_BOOK, C_WAND = range(10)
CLASSES_NAMED = 10

# Columns of `Knowledge.conditions`.
B_BLIND, B_CONFUSED, B_STUNNED, B_HALLUCINATING, B_DYING = range(5)


def packed(bits: Array) -> Array:
    """Return rows of 0 and 1 [rows, atoms] as one word of the player's and one of the scene's."""
    words = np.zeros((len(bits), 2), np.uint64)
    for atom in range(bits.shape[1]):
        word = int(atom >= PLAYER_ATOMS)
        place = np.uint64(1) << np.uint64(atom - word * PLAYER_ATOMS)
        words[:, word] |= np.where(bits[:, atom] != 0, place, np.uint64(0))
    return words


def observation_stamp() -> int:
    """Return a number that differs when the text of any module of this folder does."""
    return kernel_stamp((*sorted(Path(__file__).parent.glob("*.py")), *_SHARED))


_SHARED = tuple(Path(__file__).parent.parent / name for name in ("vocabulary.py", "skills.py"))
