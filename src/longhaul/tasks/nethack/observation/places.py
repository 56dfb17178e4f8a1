"""Where to go when nothing is left to explore: places to search, locked doors, boulders, exits."""

from __future__ import annotations

from longhaul.core.env import Array
from longhaul.core.native import kernel
from longhaul.tasks.nethack.observation import arrays as at
from longhaul.tasks.nethack.observation.arrays import Recall, Scratch
from longhaul.tasks.nethack.observation.scene import SLANTING, STEP_X, STEP_Y
from longhaul.tasks.nethack.vocabulary import KICK, SEARCH

HERE = 1
"""The length of a way that begins with something else than a step: the hero stands right."""
NEAR_EXIT = 4
MOST_KICKS = 25
MOST_PUSHES = 2
SEARCHES_PER_SPOT = 12
UNSEEN_REACH = 6
UNSEEN_AREA = (2 * UNSEEN_REACH + 1) ** 2
DEAD_END, BESIDE_WALL, BESIDE_UNSEEN, IN_CORRIDOR = 2.5, 0.4, 1.6, 0.5
"""What searching is worth: at the end of a corridor, beside a wall, the more of the surroundings
are unseen, and anywhere in a corridor."""
PUSHING = 1.5
STEPS_PER_POINT = 30.0
NOISE = 0.2


@kernel
def place_at(y: int, x: int) -> int:
    """Return where a cell of the map is on a chart."""
    return (y + 1) * at.STRIDE + x + 1


@kernel
def find_places(recall: Recall, table: Array, scratch: Scratch, hero: tuple[int, int]) -> None:
    """Write the ways to further targets, as far as there are any."""
    errands = scratch.errands
    errands[:, at.UPWARD :] = 0
    scratch.sighted[at.S_SPOT_VALUE] = 0
    if scratch.found[at.F_UP_SEEN]:
        _find_up(recall.ground, table, scratch)
    _find_exit(recall.ground, table, scratch, hero)
    _find_locked(recall, table, scratch, hero)
    if scratch.ways[at.MOVE, at.FRONTIER] == 0:
        _find_spot(recall, table, scratch, hero)
        _find_boulder(recall, table, scratch, hero)


@kernel
def _write(scratch: Scratch, target: int, place: int) -> None:
    """Write the way to a cell of the chart that can be reached."""
    scratch.errands[at.MOVE, target] = scratch.first[place]
    scratch.errands[at.STEPS, target] = scratch.length[place]


@kernel
def _find_up(ground: Array, table: Array, scratch: Scratch) -> None:
    for y in range(at.HEIGHT):
        for x in range(at.WIDTH):
            if table[at.KIND, ground[y, x]] == at.KINDS.stairs_up:
                place = place_at(y, x)
                if scratch.first[place] > 0:
                    _write(scratch, at.UPWARD, place)


@kernel
def _find_exit(ground: Array, table: Array, scratch: Scratch, hero: tuple[int, int]) -> None:
    """Find the nearest corridor or doorway, unless the hero is in one."""
    if scratch.found[at.F_PLACE] == at.CORRIDOR:
        return
    shortest = NEAR_EXIT + 1
    for y in range(max(hero[0] - NEAR_EXIT, 0), min(hero[0] + NEAR_EXIT + 1, at.HEIGHT)):
        for x in range(max(hero[1] - NEAR_EXIT, 0), min(hero[1] + NEAR_EXIT + 1, at.WIDTH)):
            kind = table[at.KIND, ground[y, x]]
            if (
                kind != at.KINDS.corridor
                and kind != at.KINDS.doorway
                and kind != at.KINDS.open_door
            ):
                continue
            place = place_at(y, x)
            if scratch.first[place] > 0 and scratch.length[place] < shortest:
                shortest = scratch.length[place]
                _write(scratch, at.NARROW, place)


@kernel
def _find_locked(recall: Recall, table: Array, scratch: Scratch, hero: tuple[int, int]) -> None:
    """Find the nearest place straight beside a locked door; there, the way begins with a kick."""
    shortest = at.STRIDE * at.HEIGHT
    here = place_at(hero[0], hero[1])
    for y in range(at.HEIGHT):
        for x in range(at.WIDTH):
            if not recall.marks[y, x] & at.BLOCKED or recall.tries[y, x] >= MOST_KICKS:
                continue
            if table[at.KIND, recall.ground[y, x]] != at.KINDS.closed_door:
                continue
            for direction in range(SLANTING):
                place = place_at(y - STEP_Y[direction], x - STEP_X[direction])
                if place == here:
                    scratch.errands[at.MOVE, at.LOCKED] = KICK
                    scratch.errands[at.STEPS, at.LOCKED] = HERE
                    return
                if scratch.first[place] > 0 and scratch.length[place] < shortest:
                    shortest = scratch.length[place]
                    _write(scratch, at.LOCKED, place)


@kernel
def locked_door_beside(recall: Recall, table: Array, hero: tuple[int, int]) -> int:
    """Return the move towards a locked door straight beside; towards any door if none is."""
    closed = 0
    for direction in range(SLANTING):
        y, x = hero[0] + STEP_Y[direction], hero[1] + STEP_X[direction]
        if not (0 <= y < at.HEIGHT and 0 <= x < at.WIDTH):
            continue
        if table[at.KIND, recall.ground[y, x]] == at.KINDS.closed_door:
            if recall.marks[y, x] & at.BLOCKED and recall.tries[y, x] < MOST_KICKS:
                return direction + 1
            closed = direction + 1
    return closed


@kernel
def _find_spot(recall: Recall, table: Array, scratch: Scratch, hero: tuple[int, int]) -> None:
    """Keep the place to search until it is searched; then choose the most promising one."""
    numbers = recall.numbers
    y, x = numbers[at.R_SPOT_Y], numbers[at.R_SPOT_X]
    here = hero[0] == y and hero[1] == x
    place = place_at(y, x)
    if numbers[at.R_SPOT_LEFT] <= 0 or not (here or scratch.first[place] > 0):
        y, x = _choose_spot(recall, table, scratch, hero)
        numbers[at.R_SPOT_Y], numbers[at.R_SPOT_X] = y, x
        numbers[at.R_SPOT_LEFT] = SEARCHES_PER_SPOT
        numbers[at.R_SPOTS] += 1
        here = hero[0] == y and hero[1] == x
        place = place_at(y, x)
    worth = spot_worth(recall, table, (y, x)) - scratch.length[place] / STEPS_PER_POINT
    scratch.sighted[at.S_SPOT_VALUE] = int(100 * worth)
    if here:
        scratch.errands[at.MOVE, at.SPOT] = SEARCH
        scratch.errands[at.STEPS, at.SPOT] = HERE
    else:
        _write(scratch, at.SPOT, place)


@kernel
def _choose_spot(
    recall: Recall, table: Array, scratch: Scratch, hero: tuple[int, int]
) -> tuple[int, int]:
    best, found = -1e9, hero
    for y in range(at.HEIGHT):
        for x in range(at.WIDTH):
            place = place_at(y, x)
            here = y == hero[0] and x == hero[1]
            if scratch.first[place] <= 0 and not here:
                continue
            value = spot_worth(recall, table, (y, x))
            value -= 0.0 if here else scratch.length[place] / STEPS_PER_POINT
            value += NOISE * noise(y * at.WIDTH + x, recall.numbers[at.R_SPOTS])
            if value > best:
                best, found = value, (y, x)
    return found


@kernel
def noise(number: int, salt: int) -> float:
    """Return a number from 0 to 1 that is the same whenever it is asked for."""
    mixed = (number * 2654435761 + salt * 40503 + 12345) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 2246822519) & 0xFFFFFFFF
    return float((mixed ^ (mixed >> 13)) & 0xFFFF) / 65536.0


@kernel
def spot_worth(recall: Recall, table: Array, cell: tuple[int, int]) -> float:
    """Return what searching from a cell promises."""
    ground = recall.ground
    y, x = cell
    open_sides, walls = 0, 0
    for direction in range(8):
        row, column = y + STEP_Y[direction], x + STEP_X[direction]
        if 0 <= row < at.HEIGHT and 0 <= column < at.WIDTH:
            open_sides += table[at.WALK, ground[row, column]] > 0
            walls += table[at.KIND, ground[row, column]] == at.KINDS.wall
    in_corridor = table[at.KIND, ground[y, x]] == at.KINDS.corridor
    value: float = 0.0 - recall.searched[y, x] / SEARCHES_PER_SPOT
    if in_corridor:
        value += IN_CORRIDOR
        if open_sides <= 1:
            value += DEAD_END
    if walls > 0:
        value += BESIDE_WALL + BESIDE_UNSEEN * _unseen_share(ground, table, cell)
    return value


@kernel
def _unseen_share(ground: Array, table: Array, cell: tuple[int, int]) -> float:
    count = 0
    for y in range(max(cell[0] - UNSEEN_REACH, 0), min(cell[0] + UNSEEN_REACH + 1, at.HEIGHT)):
        for x in range(max(cell[1] - UNSEEN_REACH, 0), min(cell[1] + UNSEEN_REACH + 1, at.WIDTH)):
            count += table[at.KIND, ground[y, x]] == at.KINDS.blank
    return count / UNSEEN_AREA


@kernel
def _find_boulder(recall: Recall, table: Array, scratch: Scratch, hero: tuple[int, int]) -> None:
    """Find a boulder that may be pushed, if that promises more than the place to search."""
    best = scratch.sighted[at.S_SPOT_VALUE] / 100.0
    here = place_at(hero[0], hero[1])
    for y in range(at.HEIGHT):
        for x in range(at.WIDTH):
            if table[at.KIND, recall.ground[y, x]] != at.KINDS.boulder:
                continue
            for direction in range(8):
                place = place_at(y - STEP_Y[direction], x - STEP_X[direction])
                if not _can_push(recall, table, (y, x), direction):
                    continue
                if place == here and best < PUSHING:
                    best = PUSHING
                    scratch.errands[at.MOVE, at.BOULDER] = direction + 1
                    scratch.errands[at.STEPS, at.BOULDER] = HERE
                elif scratch.first[place] > 0:
                    value = PUSHING - scratch.length[place] / STEPS_PER_POINT
                    if value > best:
                        best = value
                        _write(scratch, at.BOULDER, place)


@kernel
def _can_push(recall: Recall, table: Array, cell: tuple[int, int], direction: int) -> bool:
    """Whether the cell behind a boulder may be free, and it was not pushed there in vain."""
    if recall.tries[cell] >= MOST_PUSHES * 8:
        return False
    y, x = cell[0] + STEP_Y[direction], cell[1] + STEP_X[direction]
    if not (0 <= y < at.HEIGHT and 0 <= x < at.WIDTH):
        return False
    behind = recall.ground[y, x]
    return bool(table[at.WALK, behind] == at.OPEN or table[at.KIND, behind] == at.KINDS.blank)


@kernel
def note_search(recall: Recall, hero: tuple[int, int], times: int) -> None:
    """Count searches for the cells beside, and at the place that was chosen."""
    numbers, searched = recall.numbers, recall.searched
    if hero[0] == numbers[at.R_SPOT_Y] and hero[1] == numbers[at.R_SPOT_X]:
        numbers[at.R_SPOT_LEFT] -= times
    for y in range(max(hero[0] - 1, 0), min(hero[0] + 2, at.HEIGHT)):
        for x in range(max(hero[1] - 1, 0), min(hero[1] + 2, at.WIDTH)):
            searched[y, x] = min(searched[y, x] + times, 250)
