"""Which monsters may be hit: who was peaceful, who stands beside, and the way to the nearest."""

from __future__ import annotations

from longhaul.core.env import Array
from longhaul.core.native import kernel
from longhaul.tasks.nethack.observation.arrays import (
    EXPLODES,
    HEIGHT,
    KIND,
    KINDS,
    LEVEL,
    MOVE,
    P_GLYPH,
    P_TURN,
    P_X,
    P_Y,
    PREY,
    R_ACTION,
    R_PREY,
    R_SPARED,
    R_X,
    R_Y,
    REMEMBERED,
    S_ADJACENT,
    S_FOES,
    S_NEAREST,
    S_SAFE,
    S_STRONGEST_LEVEL,
    S_WEAKEST,
    S_WEAKEST_LEVEL,
    SPARED,
    STEPS,
    STRIDE,
    TOUCH,
    TRAITS,
    TURN,
    WIDTH,
    Knowledge,
    Recall,
    Scratch,
    Screen,
    X,
    Y,
)
from longhaul.tasks.nethack.observation.recall import ascii_bytes, says
from longhaul.tasks.nethack.observation.scene import STEP_X, STEP_Y

_REALLY = ascii_bytes("eally attack")
FORGET_TURNS = 12
"""Turns after which a peaceful creature that is out of sight could be anywhere."""
FARTHEST_CHARGE = 20
LONGEST_CHARGE = 12
MOST_CHASING = 40
"""Steps towards foes in one cell's surroundings: some cannot be reached, as those in walls."""
FAR = 99


@kernel
def note_refusal(screen: Screen, recall: Recall) -> None:
    """Remember as peaceful whom the game asks about before an attack."""
    numbers = recall.numbers
    action = numbers[R_ACTION]
    if not 1 <= action <= 16 or not says(screen.message, _REALLY):
        return
    y = numbers[R_Y] + STEP_Y[(action - 1) % 8]
    x = numbers[R_X] + STEP_X[(action - 1) % 8]
    if not (0 <= y < HEIGHT and 0 <= x < WIDTH):
        return
    oldest = 0
    for slot in range(REMEMBERED):
        if recall.peaceful[slot, P_TURN] < recall.peaceful[oldest, P_TURN]:
            oldest = slot
    recall.peaceful[oldest, P_Y], recall.peaceful[oldest, P_X] = y, x
    recall.peaceful[oldest, P_GLYPH] = screen.glyphs[y, x]
    recall.peaceful[oldest, P_TURN] = screen.status[TURN]
    numbers[R_SPARED] = 1


@kernel
def follow_peaceful(screen: Screen, recall: Recall) -> None:
    """Mark the cells in which peaceful creatures stand now."""
    if not recall.numbers[R_SPARED]:
        return
    marks = recall.marks
    for y in range(HEIGHT):
        for x in range(WIDTH):
            marks[y, x] &= ~SPARED
    turn, known = screen.status[TURN], 0
    for slot in range(REMEMBERED):
        age = turn - recall.peaceful[slot, P_TURN]
        if age < FORGET_TURNS:
            known = 1
            _follow(screen.glyphs, marks, recall.peaceful[slot], turn)
    recall.numbers[R_SPARED] = known


@kernel
def _follow(glyphs: Array, marks: Array, one: Array, turn: int) -> None:
    """Find one of them again: the same glyph, no farther than it can have walked."""
    y, x, glyph = one[P_Y], one[P_X], one[P_GLYPH]
    reach = 2 + turn - one[P_TURN]
    for distance in range(reach + 1):
        for row in range(max(y - distance, 0), min(y + distance + 1, HEIGHT)):
            for column in range(max(x - distance, 0), min(x + distance + 1, WIDTH)):
                away = max(abs(row - y), abs(column - x))
                free = away == distance and not marks[row, column] & SPARED
                if free and glyphs[row, column] == glyph:
                    one[P_Y], one[P_X], one[P_TURN] = row, column, turn
                    marks[row, column] |= SPARED
                    return


@kernel
def find_foes(screen: Screen, recall: Recall, knowledge: Knowledge, scratch: Scratch) -> None:
    """Write who may be hit, and the way to the nearest of them that can be reached."""
    sighted, table = scratch.sighted, knowledge.table
    sighted[:] = 0
    sighted[S_NEAREST] = FAR
    scratch.errands[:, PREY] = 0
    hero = (screen.status[Y], screen.status[X])
    best = FARTHEST_CHARGE + 1
    for y in range(HEIGHT):
        for x in range(WIDTH):
            glyph = screen.glyphs[y, x]
            if table[KIND, glyph] != KINDS.hostile or recall.marks[y, x] & SPARED:
                continue
            distance = max(abs(y - hero[0]), abs(x - hero[1]))
            if distance == 0:
                continue
            sighted[S_FOES] += 1
            if table[TRAITS, glyph] & (TOUCH | EXPLODES):
                continue
            sighted[S_SAFE] += 1
            sighted[S_NEAREST] = min(sighted[S_NEAREST], distance)
            if distance == 1:
                if can_strike(recall.ground, table, hero, (y, x)):
                    _note_beside(table[LEVEL, glyph], (y - hero[0], x - hero[1]), sighted)
            elif distance < best and recall.chased[y, x] < MOST_CHASING:
                place = (y + 1) * STRIDE + x + 1
                if _approach(scratch.first, scratch.length, place, scratch.errands):
                    best = distance
                    recall.numbers[R_PREY] = y * WIDTH + x


@kernel
def can_strike(ground: Array, table: Array, hero: tuple[int, int], foe: tuple[int, int]) -> bool:
    """Whether the hero can hit a neighbor: not diagonally through a door."""
    if hero[0] == foe[0] or hero[1] == foe[1]:
        return True
    door = KINDS.open_door
    return bool(table[KIND, ground[hero]] != door and table[KIND, ground[foe]] != door)


@kernel
def _note_beside(level: int, way: tuple[int, int], sighted: Array) -> None:
    sighted[S_ADJACENT] += 1
    first = sighted[S_ADJACENT] == 1
    if first or level < sighted[S_WEAKEST_LEVEL]:
        sighted[S_WEAKEST_LEVEL] = level
        for direction in range(8):
            if STEP_Y[direction] == way[0] and STEP_X[direction] == way[1]:
                sighted[S_WEAKEST] = direction + 1
    if first or level > sighted[S_STRONGEST_LEVEL]:
        sighted[S_STRONGEST_LEVEL] = level


@kernel
def _approach(first: Array, length: Array, place: int, errands: Array) -> bool:
    """Write the way to a cell beside a foe, if there is a short one; return whether."""
    shortest, move = LONGEST_CHARGE + 1, 0
    for direction in range(8):
        beside = place + STEP_Y[direction] * STRIDE + STEP_X[direction]
        if first[beside] > 0 and length[beside] < shortest:
            shortest, move = length[beside], first[beside]
    if move:
        errands[MOVE, PREY] = move
        errands[STEPS, PREY] = shortest
    return bool(move > 0)


@kernel
def note_chase(recall: Recall) -> None:
    """Count a step towards the present prey: who is never reached is given up."""
    y, x = recall.numbers[R_PREY] // WIDTH, recall.numbers[R_PREY] % WIDTH
    for row in range(max(y - 1, 0), min(y + 2, HEIGHT)):
        for column in range(max(x - 1, 0), min(x + 2, WIDTH)):
            recall.chased[row, column] = min(recall.chased[row, column] + 1, 250)
