"""What the map shows: creatures, ground, and the shortest paths from the hero to each target."""

from __future__ import annotations

from longhaul.core.env import Array
from longhaul.core.native import kernel
from longhaul.tasks.nethack.observation.arrays import (
    BLOCKED,
    CORRIDOR,
    D_AWAY,
    D_BLANK,
    D_DOOR,
    D_ENTER,
    D_HOSTILE,
    D_OBJECT,
    D_PEACEFUL,
    D_TOUCH,
    DOWN_HERE,
    DOWNWARD,
    EXPLODES,
    F_ADJACENT,
    F_ALTAR,
    F_BOULDER_NEAR,
    F_DOOR_CLOSED,
    F_DOOR_OPEN,
    F_DOWN_SEEN,
    F_EXPLODER,
    F_FOUNTAIN,
    F_GOLD_REACHED,
    F_IN_LINE,
    F_IN_VIEW,
    F_OBJECT_NEAR,
    F_PEACEFUL,
    F_PET,
    F_PLACE,
    F_SHOPKEEPER,
    F_STRONG,
    F_TOUCH,
    F_TRAP_NEAR,
    F_UNDER,
    F_UNSEEN,
    F_UP_SEEN,
    F_WAYS,
    FOE,
    FRONTIER,
    GOLD_HERE,
    HEIGHT,
    HOSTILE_HERE,
    KIND,
    KINDS,
    LEVEL,
    MOVE,
    NOWHERE,
    OCCUPIED,
    OPEN,
    PEACEFUL_HERE,
    PICKED_UP,
    ROOM,
    SHOPKEEPER,
    SHUT,
    STEPS,
    STRIDE,
    TAKEN,
    THING,
    THING_HERE,
    TOUCH,
    TRAITS,
    UNKNOWN,
    UNVISITED,
    VISITED,
    WALK,
    WAY,
    WIDTH,
    Scratch,
)
from longhaul.tasks.nethack.vocabulary import DIRECTIONS

STRONGER = 3
"""Levels a monster must be above the hero to count as strong."""
LINE = 8
BLAST = 2
SLANTING = 4
"""The number of the first diagonal direction."""
STEP_Y = tuple(direction[0] for direction in DIRECTIONS)
STEP_X = tuple(direction[1] for direction in DIRECTIONS)

# These functions take arrays, not the tuples that hold them: handing those over for each cell
# would take longer than what is done with it.


@kernel
def draw_chart(
    glyphs: Array, ground: Array, marks: Array, table: Array, nothing: int, chart: Array
) -> None:
    """Write for each cell how it can be entered and what a path may lead to there."""
    chart[:] = 0
    for y in range(HEIGHT):
        row = (y + 1) * STRIDE + 1
        for x in range(WIDTH):
            lies, mark = ground[y, x], marks[y, x]
            # Most of a map is nothing: the table is not asked for it.
            if lies == nothing and not mark & OCCUPIED:
                chart[row + x] = UNKNOWN
                continue
            kind = table[KIND, lies]
            cell = chart_ground(kind, mark, table[WALK, lies])
            if table[TRAITS, lies] & PICKED_UP and not mark & TAKEN:
                cell |= THING_HERE | (GOLD_HERE if kind == KINDS.gold else 0)
            who = table[KIND, glyphs[y, x]]
            if who == KINDS.hostile:
                cell |= HOSTILE_HERE
            elif who == KINDS.peaceful:
                cell |= PEACEFUL_HERE
            chart[row + x] = cell


@kernel
def chart_ground(kind: int, mark: int, walk: int) -> int:
    """Return what the ground of a cell means for paths."""
    cell = walk
    if kind == KINDS.blank:  # below a creature is ground, though it was never seen
        cell = OPEN | UNKNOWN
    elif kind == KINDS.stairs_down:
        cell |= DOWN_HERE
    elif kind == KINDS.closed_door:
        cell |= SHUT
    if mark & BLOCKED:
        cell &= ~WAY
    return cell if mark & VISITED else cell | UNVISITED


@kernel
def scan(
    glyphs: Array, ground: Array, table: Array, nothing: int, hero: tuple[int, int], found: Array
) -> None:
    """Count what is seen anywhere on the level."""
    for y in range(HEIGHT):
        for x in range(WIDTH):
            glyph = glyphs[y, x]
            if glyph == nothing and ground[y, x] == nothing:
                continue
            lies = table[KIND, ground[y, x]]
            if KINDS.stairs_up <= lies <= KINDS.fountain:
                _note_feature(lies, found)
            kind = table[KIND, glyph]
            if KINDS.hostile <= kind <= KINDS.peaceful and (y != hero[0] or x != hero[1]):
                apart = (abs(y - hero[0]), abs(x - hero[1]))
                _note_creature(kind, table[TRAITS, glyph], apart, found)


@kernel
def _note_feature(ground: int, found: Array) -> None:
    if ground == KINDS.stairs_down:
        found[F_DOWN_SEEN] = 1
    elif ground == KINDS.stairs_up:
        found[F_UP_SEEN] = 1
    elif ground == KINDS.altar:
        found[F_ALTAR] = 1
    else:
        found[F_FOUNTAIN] = 1


@kernel
def _note_creature(kind: int, traits: int, apart: tuple[int, int], found: Array) -> None:
    distance = max(apart[0], apart[1])
    if traits & SHOPKEEPER:
        found[F_SHOPKEEPER] = 1
    if traits & EXPLODES and distance <= BLAST:
        found[F_EXPLODER] = 1
    if kind == KINDS.hostile:
        found[F_IN_VIEW] += 1
        if distance <= LINE and (apart[0] == 0 or apart[1] == 0 or apart[0] == apart[1]):
            found[F_IN_LINE] = 1


@kernel
def note_ground_beside(
    chart: Array, kinds: tuple[int, int], direction: int, found: Array, around: Array
) -> None:
    """Take a neighboring cell, its class and its place on the chart, into account."""
    kind, place = kinds
    way = chart[place] & WAY
    if way == OPEN or (way and direction < SLANTING):
        around[D_ENTER, direction] = 1
        found[F_WAYS] += 1
    if kind == KINDS.blank:
        around[D_BLANK, direction] = 1
    elif KINDS.gold <= kind <= KINDS.corpse:
        around[D_OBJECT, direction] = 1
        found[F_OBJECT_NEAR] = 1
    elif kind == KINDS.boulder:
        found[F_BOULDER_NEAR] = 1
    elif kind == KINDS.open_door:
        found[F_DOOR_OPEN] = 1
    elif kind == KINDS.closed_door and direction < SLANTING:
        around[D_DOOR, direction] = 1
        found[F_DOOR_CLOSED] = 1
    elif kind == KINDS.trap:
        found[F_TRAP_NEAR] = 1


@kernel
def note_creature_beside(
    table: Array, who: tuple[int, int], direction: int, found: Array, around: Array
) -> None:
    """Take a neighbor's glyph, and the hero's experience level, into account."""
    glyph, experience = who
    kind = table[KIND, glyph]
    if kind == KINDS.hostile:
        around[D_HOSTILE, direction] = 1
        found[F_ADJACENT] += 1
        if table[LEVEL, glyph] > experience + STRONGER:
            found[F_STRONG] = 1
        if table[TRAITS, glyph] & TOUCH:
            around[D_TOUCH, direction] = 1
            found[F_TOUCH] = 1
    elif kind == KINDS.peaceful:
        around[D_PEACEFUL, direction] = 1
        found[F_PEACEFUL] = 1
    elif kind == KINDS.pet:
        found[F_PET] = 1
    elif kind == KINDS.unseen:
        found[F_UNSEEN] = 1


@kernel
def find_ways_out(around: Array) -> None:
    """Mark free neighboring cells that do not lead towards a hostile neighbor."""
    for direction in range(8):
        if not around[D_ENTER, direction] or around[D_HOSTILE, direction]:
            continue
        around[D_AWAY, direction] = 1
        for other in range(8):
            same = STEP_Y[direction] * STEP_Y[other] + STEP_X[direction] * STEP_X[other]
            if around[D_HOSTILE, other] and same > 0:
                around[D_AWAY, direction] = 0


@kernel
def note_place(ground: Array, table: Array, place: tuple[int, int], found: Array) -> None:
    """Write what lies under the hero and whether that is a room or a corridor."""
    under = table[KIND, ground[place]]
    found[F_UNDER] = under
    found[F_PLACE] = place_of(under)
    if found[F_PLACE] != NOWHERE or under == KINDS.doorway or under == KINDS.open_door:
        return
    # The ground below things is not seen; take that of the cells beside.
    for direction in range(8):
        y, x = place[0] + STEP_Y[direction], place[1] + STEP_X[direction]
        if 0 <= y < HEIGHT and 0 <= x < WIDTH:
            beside = place_of(table[KIND, ground[y, x]])
            if beside == ROOM:
                found[F_PLACE] = ROOM
                return
            if beside == CORRIDOR:
                found[F_PLACE] = CORRIDOR


@kernel
def place_of(kind: int) -> int:
    """Return whether ground of this class is of a room, of a corridor, or of neither."""
    if kind == KINDS.floor or KINDS.stairs_up <= kind <= KINDS.fountain:
        return ROOM
    return CORRIDOR if kind == KINDS.corridor else NOWHERE


_OFFSETS = tuple(y * STRIDE + x for y, x in zip(STEP_Y, STEP_X, strict=True))


@kernel
def find_paths(scratch: Scratch, hero: int) -> None:
    """Write the first move and the length of the shortest known path to each target.

    Cells are entered as the game allows: doors not diagonally, monsters not at all, but a hostile
    one is a target itself. Moves straight ahead are tried before slanting ones.
    """
    chart, first, length, queue = scratch.chart, scratch.first, scratch.length, scratch.queue
    ways, found = scratch.ways, scratch.found
    first[:] = 0
    ways[:] = 0
    first[hero] = -1
    length[hero] = 0
    queue[0] = hero
    head, tail = 0, 1
    while head < tail:
        here = queue[head]
        head += 1
        # A door is left as it is entered: not diagonally.
        open_sides = SLANTING if chart[here] & WAY > OPEN else 8
        for direction in range(open_sides):
            near = here + _OFFSETS[direction]
            cell = chart[near]
            if first[near] != 0 or cell == 0:
                continue
            move = direction + 1 if first[here] < 0 else first[here]
            if cell & HOSTILE_HERE:
                _reach(ways, FOE, move, length[here] + 1)
                continue
            way = cell & WAY
            if cell & PEACEFUL_HERE or way == 0 or (way > OPEN and direction >= SLANTING):
                continue
            first[near] = move
            length[near] = length[here] + 1
            queue[tail] = near
            tail += 1
            if cell & (DOWN_HERE | THING_HERE):
                _reach_things(cell, (move, length[near]), ways, found)
            if cell & UNVISITED and ways[MOVE, FRONTIER] == 0 and _is_edge(chart, near):
                _reach(ways, FRONTIER, move, length[near])


@kernel
def _reach_things(cell: int, path: tuple[int, int], ways: Array, found: Array) -> None:
    """Mark the targets that a cell reached for the first time counts for."""
    if cell & DOWN_HERE:
        _reach(ways, DOWNWARD, path[0], path[1])
    if cell & THING_HERE:
        _reach(ways, THING, path[0], path[1])
        if cell & GOLD_HERE:
            found[F_GOLD_REACHED] = 1


@kernel
def _reach(ways: Array, target: int, move: int, length: int) -> None:
    """Keep the first way found, which is the shortest."""
    if ways[MOVE, target] == 0:
        ways[MOVE, target] = move
        ways[STEPS, target] = length


@kernel
def _is_edge(chart: Array, place: int) -> bool:
    """Whether nothing is known of a cell beside, or it is a closed door."""
    known = ~chart[place] & SHUT
    for offset in _OFFSETS:
        known = known and not chart[place + offset] & UNKNOWN
    return not known
