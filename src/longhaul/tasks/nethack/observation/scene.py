"""What the map shows: creatures, ground, and the shortest paths from the hero to each target."""

from __future__ import annotations

from longhaul.core.env import Array
from longhaul.core.native import kernel
from longhaul.tasks.nethack.observation import arrays as at
from longhaul.tasks.nethack.observation.arrays import Scratch
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
    for y in range(at.HEIGHT):
        row = (y + 1) * at.STRIDE + 1
        for x in range(at.WIDTH):
            lies, mark = ground[y, x], marks[y, x]
            # Most of a map is nothing: the table is not asked for it.
            if lies == nothing and not mark & at.OCCUPIED:
                chart[row + x] = at.UNKNOWN
                continue
            kind = table[at.KIND, lies]
            cell = chart_ground(kind, mark, table[at.WALK, lies])
            if table[at.TRAITS, lies] & at.PICKED_UP and not mark & at.TAKEN:
                cell |= at.THING_HERE | (at.GOLD_HERE if kind == at.KINDS.gold else 0)
            who = table[at.KIND, glyphs[y, x]]
            if who == at.KINDS.hostile:
                cell |= at.HOSTILE_HERE
            elif who == at.KINDS.peaceful:
                cell |= at.PEACEFUL_HERE
            chart[row + x] = cell


@kernel
def chart_ground(kind: int, mark: int, walk: int) -> int:
    """Return what the ground of a cell means for paths."""
    cell = walk
    if kind == at.KINDS.blank:  # below a creature is ground, though it was never seen
        cell = at.OPEN | at.UNKNOWN
    elif kind == at.KINDS.stairs_down:
        cell |= at.DOWN_HERE
    elif kind == at.KINDS.closed_door:
        cell |= at.SHUT
    if mark & at.BLOCKED:
        cell &= ~at.WAY
    return cell if mark & at.VISITED else cell | at.UNVISITED


@kernel
def scan(
    glyphs: Array, ground: Array, table: Array, nothing: int, hero: tuple[int, int], found: Array
) -> None:
    """Count what is seen anywhere on the level."""
    for y in range(at.HEIGHT):
        for x in range(at.WIDTH):
            glyph = glyphs[y, x]
            if glyph == nothing and ground[y, x] == nothing:
                continue
            lies = table[at.KIND, ground[y, x]]
            if at.KINDS.stairs_up <= lies <= at.KINDS.fountain:
                _note_feature(lies, found)
            kind = table[at.KIND, glyph]
            if at.KINDS.hostile <= kind <= at.KINDS.peaceful and (y != hero[0] or x != hero[1]):
                apart = (abs(y - hero[0]), abs(x - hero[1]))
                _note_creature(kind, table[at.TRAITS, glyph], apart, found)


@kernel
def _note_feature(ground: int, found: Array) -> None:
    if ground == at.KINDS.stairs_down:
        found[at.F_DOWN_SEEN] = 1
    elif ground == at.KINDS.stairs_up:
        found[at.F_UP_SEEN] = 1
    elif ground == at.KINDS.altar:
        found[at.F_ALTAR] = 1
    else:
        found[at.F_FOUNTAIN] = 1


@kernel
def _note_creature(kind: int, traits: int, apart: tuple[int, int], found: Array) -> None:
    distance = max(apart[0], apart[1])
    if traits & at.SHOPKEEPER:
        found[at.F_SHOPKEEPER] = 1
    if traits & at.EXPLODES and distance <= BLAST:
        found[at.F_EXPLODER] = 1
    if kind == at.KINDS.hostile:
        found[at.F_IN_VIEW] += 1
        if distance <= LINE and (apart[0] == 0 or apart[1] == 0 or apart[0] == apart[1]):
            found[at.F_IN_LINE] = 1


@kernel
def note_ground_beside(
    chart: Array, kinds: tuple[int, int], direction: int, found: Array, around: Array
) -> None:
    """Take a neighboring cell, its class and its place on the chart, into account."""
    kind, place = kinds
    way = chart[place] & at.WAY
    if way == at.OPEN or (way and direction < SLANTING):
        around[at.D_ENTER, direction] = 1
        found[at.F_WAYS] += 1
    if kind == at.KINDS.blank:
        around[at.D_BLANK, direction] = 1
    elif at.KINDS.gold <= kind <= at.KINDS.corpse:
        around[at.D_OBJECT, direction] = 1
        found[at.F_OBJECT_NEAR] = 1
    elif kind == at.KINDS.boulder:
        found[at.F_BOULDER_NEAR] = 1
    elif kind == at.KINDS.open_door:
        found[at.F_DOOR_OPEN] = 1
    elif kind == at.KINDS.closed_door and direction < SLANTING:
        around[at.D_DOOR, direction] = 1
        found[at.F_DOOR_CLOSED] = 1
    elif kind == at.KINDS.trap:
        found[at.F_TRAP_NEAR] = 1


@kernel
def note_creature_beside(
    table: Array, who: tuple[int, int], direction: int, found: Array, around: Array
) -> None:
    """Take a neighbor's glyph, and the hero's experience level, into account."""
    glyph, experience = who
    kind = table[at.KIND, glyph]
    if kind == at.KINDS.hostile:
        around[at.D_HOSTILE, direction] = 1
        found[at.F_ADJACENT] += 1
        if table[at.LEVEL, glyph] > experience + STRONGER:
            found[at.F_STRONG] = 1
        if table[at.TRAITS, glyph] & at.TOUCH:
            around[at.D_TOUCH, direction] = 1
            found[at.F_TOUCH] = 1
    elif kind == at.KINDS.peaceful:
        around[at.D_PEACEFUL, direction] = 1
        found[at.F_PEACEFUL] = 1
    elif kind == at.KINDS.pet:
        found[at.F_PET] = 1
    elif kind == at.KINDS.unseen:
        found[at.F_UNSEEN] = 1


@kernel
def find_ways_out(around: Array) -> None:
    """Mark free neighboring cells that do not lead towards a hostile neighbor."""
    for direction in range(8):
        if not around[at.D_ENTER, direction] or around[at.D_HOSTILE, direction]:
            continue
        around[at.D_AWAY, direction] = 1
        for other in range(8):
            same = STEP_Y[direction] * STEP_Y[other] + STEP_X[direction] * STEP_X[other]
            if around[at.D_HOSTILE, other] and same > 0:
                around[at.D_AWAY, direction] = 0


@kernel
def note_place(ground: Array, table: Array, place: tuple[int, int], found: Array) -> None:
    """Write what lies under the hero and whether that is a room or a corridor."""
    under = table[at.KIND, ground[place]]
    found[at.F_UNDER] = under
    found[at.F_PLACE] = place_of(under)
    if found[at.F_PLACE] != at.NOWHERE or under == at.KINDS.doorway or under == at.KINDS.open_door:
        return
    # The ground below things is not seen; take that of the cells beside.
    for direction in range(8):
        y, x = place[0] + STEP_Y[direction], place[1] + STEP_X[direction]
        if 0 <= y < at.HEIGHT and 0 <= x < at.WIDTH:
            beside = place_of(table[at.KIND, ground[y, x]])
            if beside == at.ROOM:
                found[at.F_PLACE] = at.ROOM
                return
            if beside == at.CORRIDOR:
                found[at.F_PLACE] = at.CORRIDOR


@kernel
def place_of(kind: int) -> int:
    """Return whether ground of this class is of a room, of a corridor, or of neither."""
    if kind == at.KINDS.floor or at.KINDS.stairs_up <= kind <= at.KINDS.fountain:
        return at.ROOM
    return at.CORRIDOR if kind == at.KINDS.corridor else at.NOWHERE


_OFFSETS = tuple(y * at.STRIDE + x for y, x in zip(STEP_Y, STEP_X, strict=True))


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
        open_sides = SLANTING if chart[here] & at.WAY > at.OPEN else 8
        for direction in range(open_sides):
            near = here + _OFFSETS[direction]
            cell = chart[near]
            if first[near] != 0 or cell == 0:
                continue
            move = direction + 1 if first[here] < 0 else first[here]
            if cell & at.HOSTILE_HERE:
                _reach(ways, at.FOE, move, length[here] + 1)
                continue
            way = cell & at.WAY
            if cell & at.PEACEFUL_HERE or way == 0 or (way > at.OPEN and direction >= SLANTING):
                continue
            first[near] = move
            length[near] = length[here] + 1
            queue[tail] = near
            tail += 1
            if cell & (at.DOWN_HERE | at.THING_HERE):
                _reach_things(cell, (move, length[near]), ways, found)
            if cell & at.UNVISITED and ways[at.MOVE, at.FRONTIER] == 0 and _is_edge(chart, near):
                _reach(ways, at.FRONTIER, move, length[near])


@kernel
def _reach_things(cell: int, path: tuple[int, int], ways: Array, found: Array) -> None:
    """Mark the targets that a cell reached for the first time counts for."""
    if cell & at.DOWN_HERE:
        _reach(ways, at.DOWNWARD, path[0], path[1])
    if cell & at.THING_HERE:
        _reach(ways, at.THING, path[0], path[1])
        if cell & at.GOLD_HERE:
            found[at.F_GOLD_REACHED] = 1


@kernel
def _reach(ways: Array, target: int, move: int, length: int) -> None:
    """Keep the first way found, which is the shortest."""
    if ways[at.MOVE, target] == 0:
        ways[at.MOVE, target] = move
        ways[at.STEPS, target] = length


@kernel
def _is_edge(chart: Array, place: int) -> bool:
    """Whether nothing is known of a cell beside, or it is a closed door."""
    known = ~chart[place] & at.SHUT
    for offset in _OFFSETS:
        known = known and not chart[place + offset] & at.UNKNOWN
    return not known
