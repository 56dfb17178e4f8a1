"""Remembering what the last steps brought and what the level looks like under its creatures."""

from __future__ import annotations

import numpy as np

from longhaul.core.env import Array
from longhaul.core.native import kernel
from longhaul.tasks.nethack.observation import arrays as at
from longhaul.tasks.nethack.observation.arrays import Knowledge, Recall, Screen
from longhaul.tasks.nethack.vocabulary import DIRECTIONS, DOWN, SEARCH, UP


def ascii_bytes(text: str) -> Array:
    """Return words as a message holds them."""
    return np.frombuffer(text.encode("ascii"), np.uint8)


_LOCKED = ascii_bytes("door is locked")
_FINISHED = ascii_bytes("finish eating")
_DELICIOUS = ascii_bytes("elicious")
_TASTES = ascii_bytes("tastes")
_DIRECTION = ascii_bytes("direction?")
_TO_EAT = ascii_bytes("want to eat")
SPACE, LETTER_A, LETTER_Z, CASE = 32, 97, 122, 32
WORD_FACTOR, WORD_MODULUS = 31, 65521


@kernel
def says(message: Array, words: Array) -> bool:
    """Whether a message, which ends with a zero, holds these words."""
    last = len(message) - len(words)
    for begin in range(last + 1):
        if message[begin] == 0:
            return False
        if message[begin] != words[0]:
            continue
        place = 1
        while place < len(words) and message[begin + place] == words[place]:
            place += 1
        if place == len(words):
            return True
    return False


@kernel
def says_locked(message: Array) -> bool:
    """Whether a message says that a door is locked."""
    return says(message, _LOCKED)


@kernel
def says_eaten(message: Array) -> bool:
    """Whether a meal was finished."""
    return says(message, _FINISHED) or says(message, _DELICIOUS) or says(message, _TASTES)


@kernel
def asks_direction(message: Array) -> bool:
    """Whether the game wants a direction."""
    return says(message, _DIRECTION)


@kernel
def asks_item(message: Array) -> bool:
    """Whether the game wants to know what to eat."""
    return says(message, _TO_EAT)


@kernel
def count_words(message: Array, bag: Array) -> None:
    """Write how often each bin of a bag is hit by a word of the message, as square roots."""
    bag[:] = 0.0
    code, length = 0, 0
    for place in range(len(message)):
        letter = message[place] | CASE
        if LETTER_A <= letter <= LETTER_Z and message[place] != 0:
            code = (code * WORD_FACTOR + letter) % WORD_MODULUS
            length += 1
            continue
        # Words of one or two letters are ignored.
        if length > 2:
            bag[code % len(bag)] += 1.0
        code, length = 0, 0
        if message[place] == 0:
            break
    for place in range(len(bag)):
        bag[place] = np.sqrt(bag[place])


@kernel
def open_prompt(modes: Array, message: Array) -> int:
    """Return the kind of question that waits for a key."""
    if not modes[0]:
        return at.NO_PROMPT
    if asks_direction(message):
        return at.ASKS_DIRECTION
    return at.ASKS_ITEM if asks_item(message) else at.ASKS_CONFIRMATION


@kernel
def has_key_for(letters: Array, classes: Array, wanted: int, keys: Array) -> bool:
    """Whether an item of the wanted class has a letter that is one of the keys."""
    for place in range(len(letters)):
        if letters[place] == 0:
            return False
        if classes[place] == wanted:
            for key in keys:
                if key == letters[place]:
                    return True
    return False


LEVELS = 1000
"""More than there are in any dungeon."""
NOTHING, WAY_UP, WAY_DOWN = range(3)
"""Columns of `Knowledge.landmarks`."""
_STEP_Y = tuple(direction[0] for direction in DIRECTIONS)
_STEP_X = tuple(direction[1] for direction in DIRECTIONS)


@kernel
def begin(screen: Screen, recall: Recall) -> None:
    """Forget the game before."""
    numbers, status = recall.numbers, screen.status
    cap = numbers[at.R_CAP]
    numbers[:] = 0
    numbers[at.R_CAP] = cap
    numbers[at.R_TURN] = status[at.TURN]
    numbers[at.R_SCORE] = status[at.SCORE]
    numbers[at.R_HP] = status[at.HP]
    numbers[at.R_X], numbers[at.R_Y] = status[at.X], status[at.Y]
    numbers[at.R_ANCHOR_X], numbers[at.R_ANCHOR_Y] = status[at.X], status[at.Y]
    numbers[at.R_LEVEL] = -1
    numbers[at.R_ACTION] = -1
    numbers[at.R_HURT_AGE] = at.NEVER
    numbers[at.R_MEAL_TURN] = -at.NEVER
    numbers[at.R_LOCK_AGE] = at.NEVER
    numbers[at.R_DEEPEST] = status[at.DEPTH]


@kernel
def note_step(screen: Screen, recall: Recall, action: int) -> None:
    """Take one step's outcome into the numbers that are remembered."""
    numbers, status = recall.numbers, screen.status
    numbers[at.R_STEP] += 1
    numbers[at.R_ACTION] = action
    numbers[at.R_FROZEN] = numbers[at.R_FROZEN] + 1 if status[at.TURN] == numbers[at.R_TURN] else 0
    numbers[at.R_TURN] = status[at.TURN]
    numbers[at.R_SCORE_CHANGE] = status[at.SCORE] - numbers[at.R_SCORE]
    numbers[at.R_SCORE_AGE] = 0 if numbers[at.R_SCORE_CHANGE] else numbers[at.R_SCORE_AGE] + 1
    numbers[at.R_SCORE] = status[at.SCORE]
    numbers[at.R_HP_CHANGE] = status[at.HP] - numbers[at.R_HP]
    numbers[at.R_HURT_AGE] = 0 if numbers[at.R_HP_CHANGE] < 0 else numbers[at.R_HURT_AGE] + 1
    numbers[at.R_HP] = status[at.HP]
    numbers[at.R_DEEPEST] = max(numbers[at.R_DEEPEST], status[at.DEPTH])
    if says_eaten(screen.message):
        numbers[at.R_MEAL_TURN] = status[at.TURN]
        recall.killed[numbers[at.R_Y], numbers[at.R_X]] = -at.NEVER
    numbers[at.R_LOCK_AGE] = 0 if says_locked(screen.message) else numbers[at.R_LOCK_AGE] + 1


@kernel
def note_where(screen: Screen, recall: Recall, knowledge: Knowledge) -> None:
    """Take the hero's place and the level's cells into memory."""
    numbers, status = recall.numbers, screen.status
    x, y = status[at.X], status[at.Y]
    level = status[at.DUNGEON] * LEVELS + status[at.DUNGEON_LEVEL]
    if level != numbers[at.R_LEVEL]:
        _enter_level(screen, recall, knowledge)
        numbers[at.R_LEVEL] = level
    else:
        numbers[at.R_LEVEL_AGE] += 1
        _note_block(recall)
        _note_walk(recall, x, y)
    numbers[at.R_X], numbers[at.R_Y] = x, y
    _note_ground(screen.glyphs, recall, knowledge.table, (y, x))
    recall.marks[y, x] |= at.VISITED | at.TAKEN


@kernel
def _enter_level(screen: Screen, recall: Recall, knowledge: Knowledge) -> None:
    """Forget the level before; by stairs one arrives on stairs."""
    numbers, status = recall.numbers, screen.status
    x, y = status[at.X], status[at.Y]
    under = knowledge.landmarks[NOTHING]
    if numbers[at.R_LEVEL] < 0:  # games begin on the stairs up
        under = knowledge.landmarks[WAY_UP]
    else:
        left = knowledge.table[at.KIND, recall.ground[numbers[at.R_Y], numbers[at.R_X]]]
        if numbers[at.R_ACTION] == DOWN and left == at.KINDS.stairs_down:
            under = knowledge.landmarks[WAY_UP]
        elif numbers[at.R_ACTION] == UP and left == at.KINDS.stairs_up:
            under = knowledge.landmarks[WAY_DOWN]
    recall.marks[:] = 0
    recall.killed[:] = -at.NEVER
    recall.searched[:] = 0
    recall.tries[:] = 0
    recall.chased[:] = 0
    numbers[at.R_SPOT_LEFT] = 0
    recall.ground[:] = knowledge.landmarks[NOTHING]
    recall.ground[y, x] = under
    numbers[at.R_LEVEL_AGE] = 0
    numbers[at.R_LINGER] = 0
    numbers[at.R_SEARCHES] = 0
    numbers[at.R_MOVED] = 1
    numbers[at.R_ANCHOR_X], numbers[at.R_ANCHOR_Y] = x, y


@kernel
def _note_walk(recall: Recall, x: int, y: int) -> None:
    """Count how long the hero stays and searches, and mark what it ran across."""
    numbers = recall.numbers
    old_x, old_y = numbers[at.R_X], numbers[at.R_Y]
    numbers[at.R_MOVED] = 1 if x != old_x or y != old_y else 0
    if numbers[at.R_MOVED]:
        numbers[at.R_SEARCHES] = 0
        _mark_run(recall.marks, (old_y, old_x), (y, x))
    if numbers[at.R_ACTION] == SEARCH:
        numbers[at.R_SEARCHES] += 1
    away = max(abs(x - numbers[at.R_ANCHOR_X]), abs(y - numbers[at.R_ANCHOR_Y]))
    if away > 1:
        numbers[at.R_LINGER] = 0
        numbers[at.R_ANCHOR_X], numbers[at.R_ANCHOR_Y] = x, y
    else:
        numbers[at.R_LINGER] += 1


@kernel
def _mark_run(marks: Array, begin: tuple[int, int], end: tuple[int, int]) -> None:
    """Mark the cells between two ends of a straight line as visited."""
    down, right = end[0] - begin[0], end[1] - begin[1]
    if down != 0 and right != 0 and abs(down) != abs(right):
        return
    length = max(abs(down), abs(right))
    for step in range(1, length):
        marks[begin[0] + down // length * step, begin[1] + right // length * step] |= at.VISITED


@kernel
def _note_block(recall: Recall) -> None:
    """Mark the door that a message calls locked."""
    numbers = recall.numbers
    action = numbers[at.R_ACTION]
    if numbers[at.R_LOCK_AGE] != 0 or not 1 <= action <= 16:
        return
    direction = (action - 1) % 8
    y = numbers[at.R_Y] + _STEP_Y[direction]
    x = numbers[at.R_X] + _STEP_X[direction]
    if 0 <= y < at.HEIGHT and 0 <= x < at.WIDTH:
        recall.marks[y, x] |= at.BLOCKED


@kernel
def _note_ground(glyphs: Array, recall: Recall, table: Array, hero: tuple[int, int]) -> None:
    """Remember what lies under creatures, and which corpses are of monsters just killed."""
    ground, marks, killed = recall.ground, recall.marks, recall.killed
    turn = recall.numbers[at.R_TURN]
    for y in range(at.HEIGHT):
        for x in range(at.WIDTH):
            glyph = glyphs[y, x]
            if glyph == ground[y, x] and not marks[y, x] & at.OCCUPIED:
                continue
            kind = table[at.KIND, glyph]
            # Creatures and effects stand for nothing that lies on the ground.
            if kind >= at.KINDS.hostile:
                marks[y, x] |= at.OCCUPIED
            elif y != hero[0] or x != hero[1]:
                if kind == at.KINDS.corpse and marks[y, x] & at.OCCUPIED and glyph != ground[y, x]:
                    killed[y, x] = turn
                marks[y, x] = _marks_after(marks[y, x], kind, glyph != ground[y, x])
                ground[y, x] = glyph


@kernel
def _marks_after(marks: int, kind: int, changed: int) -> int:
    """Return the marks of a cell whose ground is seen."""
    if changed and at.KINDS.gold <= kind <= at.KINDS.statue:
        marks &= ~at.TAKEN
    if changed and kind != at.KINDS.closed_door:
        marks &= ~at.BLOCKED
    return marks & ~at.OCCUPIED
