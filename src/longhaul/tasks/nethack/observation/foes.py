"""Which monsters may be hit: who was peaceful, who stands beside, and the way to the nearest."""

from __future__ import annotations

from longhaul.core.env import Array
from longhaul.core.native import kernel
from longhaul.tasks.nethack.observation import arrays as at
from longhaul.tasks.nethack.observation.arrays import Knowledge, Recall, Scratch, Screen
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
    action = numbers[at.R_ACTION]
    if not 1 <= action <= 16 or not says(screen.message, _REALLY):
        return
    y = numbers[at.R_Y] + STEP_Y[(action - 1) % 8]
    x = numbers[at.R_X] + STEP_X[(action - 1) % 8]
    if not (0 <= y < at.HEIGHT and 0 <= x < at.WIDTH):
        return
    oldest = 0
    for slot in range(at.REMEMBERED):
        if recall.peaceful[slot, at.P_TURN] < recall.peaceful[oldest, at.P_TURN]:
            oldest = slot
    recall.peaceful[oldest, at.P_Y], recall.peaceful[oldest, at.P_X] = y, x
    recall.peaceful[oldest, at.P_GLYPH] = screen.glyphs[y, x]
    recall.peaceful[oldest, at.P_TURN] = screen.status[at.TURN]
    numbers[at.R_SPARED] = 1


@kernel
def follow_peaceful(screen: Screen, recall: Recall) -> None:
    """Mark the cells in which peaceful creatures stand now."""
    if not recall.numbers[at.R_SPARED]:
        return
    marks = recall.marks
    for y in range(at.HEIGHT):
        for x in range(at.WIDTH):
            marks[y, x] &= ~at.SPARED
    turn, known = screen.status[at.TURN], 0
    for slot in range(at.REMEMBERED):
        age = turn - recall.peaceful[slot, at.P_TURN]
        if age < FORGET_TURNS:
            known = 1
            _follow(screen.glyphs, marks, recall.peaceful[slot], turn)
    recall.numbers[at.R_SPARED] = known


@kernel
def _follow(glyphs: Array, marks: Array, one: Array, turn: int) -> None:
    """Find one of them again: the same glyph, no farther than it can have walked."""
    y, x, glyph = one[at.P_Y], one[at.P_X], one[at.P_GLYPH]
    reach = 2 + turn - one[at.P_TURN]
    for distance in range(reach + 1):
        for row in range(max(y - distance, 0), min(y + distance + 1, at.HEIGHT)):
            for column in range(max(x - distance, 0), min(x + distance + 1, at.WIDTH)):
                away = max(abs(row - y), abs(column - x))
                free = away == distance and not marks[row, column] & at.SPARED
                if free and glyphs[row, column] == glyph:
                    one[at.P_Y], one[at.P_X], one[at.P_TURN] = row, column, turn
                    marks[row, column] |= at.SPARED
                    return


@kernel
def find_foes(screen: Screen, recall: Recall, knowledge: Knowledge, scratch: Scratch) -> None:
    """Write who may be hit, and the way to the nearest of them that can be reached."""
    sighted, table = scratch.sighted, knowledge.table
    sighted[:] = 0
    sighted[at.S_NEAREST] = FAR
    scratch.errands[:, at.PREY] = 0
    hero = (screen.status[at.Y], screen.status[at.X])
    best = FARTHEST_CHARGE + 1
    for y in range(at.HEIGHT):
        for x in range(at.WIDTH):
            glyph = screen.glyphs[y, x]
            if table[at.KIND, glyph] != at.KINDS.hostile or recall.marks[y, x] & at.SPARED:
                continue
            distance = max(abs(y - hero[0]), abs(x - hero[1]))
            if distance == 0:
                continue
            sighted[at.S_FOES] += 1
            if table[at.TRAITS, glyph] & (at.TOUCH | at.EXPLODES):
                continue
            sighted[at.S_SAFE] += 1
            sighted[at.S_NEAREST] = min(sighted[at.S_NEAREST], distance)
            if distance == 1:
                if can_strike(recall.ground, table, hero, (y, x)):
                    _note_beside(table[at.LEVEL, glyph], (y - hero[0], x - hero[1]), sighted)
            elif distance < best and recall.chased[y, x] < MOST_CHASING:
                place = (y + 1) * at.STRIDE + x + 1
                if _approach(scratch.first, scratch.length, place, scratch.errands):
                    best = distance
                    recall.numbers[at.R_PREY] = y * at.WIDTH + x


@kernel
def can_strike(ground: Array, table: Array, hero: tuple[int, int], foe: tuple[int, int]) -> bool:
    """Whether the hero can hit a neighbor: not diagonally through a door."""
    if hero[0] == foe[0] or hero[1] == foe[1]:
        return True
    door = at.KINDS.open_door
    return bool(table[at.KIND, ground[hero]] != door and table[at.KIND, ground[foe]] != door)


@kernel
def _note_beside(level: int, way: tuple[int, int], sighted: Array) -> None:
    sighted[at.S_ADJACENT] += 1
    first = sighted[at.S_ADJACENT] == 1
    if first or level < sighted[at.S_WEAKEST_LEVEL]:
        sighted[at.S_WEAKEST_LEVEL] = level
        for direction in range(8):
            if STEP_Y[direction] == way[0] and STEP_X[direction] == way[1]:
                sighted[at.S_WEAKEST] = direction + 1
    if first or level > sighted[at.S_STRONGEST_LEVEL]:
        sighted[at.S_STRONGEST_LEVEL] = level


@kernel
def _approach(first: Array, length: Array, place: int, errands: Array) -> bool:
    """Write the way to a cell beside a foe, if there is a short one; return whether."""
    shortest, move = LONGEST_CHARGE + 1, 0
    for direction in range(8):
        beside = place + STEP_Y[direction] * at.STRIDE + STEP_X[direction]
        if first[beside] > 0 and length[beside] < shortest:
            shortest, move = length[beside], first[beside]
    if move:
        errands[at.MOVE, at.PREY] = move
        errands[at.STEPS, at.PREY] = shortest
    return bool(move > 0)


@kernel
def note_chase(recall: Recall) -> None:
    """Count a step towards the present prey: who is never reached is given up."""
    y, x = recall.numbers[at.R_PREY] // at.WIDTH, recall.numbers[at.R_PREY] % at.WIDTH
    for row in range(max(y - 1, 0), min(y + 2, at.HEIGHT)):
        for column in range(max(x - 1, 0), min(x + 2, at.WIDTH)):
            recall.chased[row, column] = min(recall.chased[row, column] + 1, 250)
