"""The address in video memory as a place on the screen: what it shows and how it moves."""

from __future__ import annotations

from longhaul.core.env import Array
from longhaul.envs.nes.layout import HORIZONTAL, NAMETABLES
from longhaul.envs.nes.native import integer, kernel

ACROSS = 0x041F
"""The bits of the address that say how far to the right."""
ONE_LINE = 0x1000
LINE_IN_TILE = 0x7000
TILE_ROW = 0x03E0
LAST_TILE_ROW = 29 << 5


@kernel
def table_base(v: int, mirroring: int) -> int:
    """Return where in a console's row the screen that `v` points into begins."""
    which = v >> 11 & 1 if mirroring == HORIZONTAL else v >> 10 & 1
    return NAMETABLES + (which << 10)


@kernel
def below(v: int) -> int:
    """Return the address one line further down."""
    if v & LINE_IN_TILE != LINE_IN_TILE:
        return v + ONE_LINE
    v &= ~LINE_IN_TILE
    if v & TILE_ROW == LAST_TILE_ROW:
        return (v & ~TILE_ROW) ^ 0x0800
    if v & TILE_ROW == TILE_ROW:
        return v & ~TILE_ROW
    return v + (1 << 5)


@kernel
def next_line(v: int, t: int) -> int:
    """Return the address at which the next line begins."""
    return (below(v) & ~ACROSS) | (t & ACROSS)


@kernel
def to_the_right(v: int) -> int:
    """Return the address one tile further to the right."""
    if v & 31 == 31:
        return (v & ~31) ^ 0x0400
    return v + 1


@kernel
def tile_row(row: Array, v: int, control: int, mirroring: int) -> int:
    """Return which row of eight pixels the background has at `v`, counted over all patterns."""
    tile = integer(row[table_base(v, mirroring) + (v & 0x3FF)])
    return (((control & 0x10) << 4) + tile) * 8 + (v >> 12 & 7)
