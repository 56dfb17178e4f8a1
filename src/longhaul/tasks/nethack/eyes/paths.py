"""Shortest known paths from the hero to what is worth going to."""

from __future__ import annotations

from longhaul.core.env import Array
from longhaul.envs.nes.native import kernel
from longhaul.tasks.nethack.eyes.arrays import (
    DOWN_HERE,
    DOWNWARD,
    F_GOLD_REACHED,
    FOE,
    FRONTIER,
    GOLD_HERE,
    HOSTILE_HERE,
    MOVE,
    OPEN,
    PEACEFUL_HERE,
    SHUT,
    STEPS,
    STRIDE,
    THING,
    THING_HERE,
    UNKNOWN,
    UNVISITED,
    WAY,
    Scratch,
)
from longhaul.tasks.nethack.eyes.scene import SLANTING, STEP_X, STEP_Y

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
    """Tell the targets a cell that was reached for the first time stands for."""
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
