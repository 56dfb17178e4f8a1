"""The background: a line of tiles at a time, eight pixels in one 64-bit word."""

from __future__ import annotations

from typing import Any

import numpy as np

from longhaul.core.env import Array
from longhaul.envs.nes.game import Canvas, Machine
from longhaul.envs.nes.layout import CONTROL, FINE_X, HEIGHT, MASK, PALETTE, V
from longhaul.envs.nes.native import integer, kernel
from longhaul.envs.nes.scroll import table_base

BACKGROUND_SHOWN = 0x08
LEFT_EDGE_SHOWN = 0x02
GREY_ONLY = 0x01
EVERY_BYTE = np.uint64(0x0101010101010101)
TILES_ACROSS = 33
"""One more than fit: the first and the last are cut by the fine scroll."""


@kernel
def _shade(row: Array, registers: Array, canvas: Canvas, entry: int) -> Any:
    """Return eight pixels of what an entry of the palette is drawn as."""
    grey = 0x30 if registers[MASK] & GREY_ONLY else 0x3F
    return np.uint64(canvas.shades[row[PALETTE + entry] & grey]) * EVERY_BYTE


@kernel
def mix_tints(row: Array, registers: Array, canvas: Canvas) -> None:
    """Prepare the words whose exclusive or, under a tile's masks, gives its eight pixels."""
    backdrop = _shade(row, registers, canvas, 0)
    for palette in range(4):
        one = _shade(row, registers, canvas, palette * 4 + 1)
        two = _shade(row, registers, canvas, palette * 4 + 2)
        three = _shade(row, registers, canvas, palette * 4 + 3)
        canvas.tints[palette, 0] = backdrop
        canvas.tints[palette, 1] = backdrop ^ one
        canvas.tints[palette, 2] = backdrop ^ two
        canvas.tints[palette, 3] = backdrop ^ one ^ two ^ three


@kernel
def _leave_empty(canvas: Canvas, line: int) -> None:
    """Fill a line with the backdrop."""
    canvas.offset[line] = 0
    for word in range(TILES_ACROSS):
        canvas.words[line, word] = canvas.tints[0, 0]
        canvas.opaque[line, word] = 0


@kernel
def _hide_left_edge(canvas: Canvas, line: int) -> None:
    """Put the backdrop over the first eight pixels."""
    for pixel in range(canvas.offset[line], canvas.offset[line] + 8):
        canvas.bytes[line, pixel] = canvas.tints[0, 0] & np.uint64(0xFF)
        canvas.opaque[line, pixel >> 3] &= ~(0x80 >> (pixel & 7))


@kernel
def paint_lines(
    row: Array, registers: Array, machine: Machine, line: int, count: int, v: int
) -> None:
    """Draw `count` lines of background from `v` on, all within one row of tiles."""
    game, canvas = machine.game, machine.canvas
    mask = registers[MASK]
    if mask & BACKGROUND_SHOWN == 0:
        for index in range(line, line + count):
            _leave_empty(canvas, index)
        return
    bank = ((registers[CONTROL] & 0x10) << 4) * 8 + (v >> 12 & 7)
    across = v & 31
    down = v >> 5 & 31
    v &= 0x0C00
    for word in range(TILES_ACROSS):
        table = table_base(v, game.mirroring)
        tile = integer(row[table + down * 32 + across])
        attributes = integer(row[table + 0x3C0 + (down >> 2) * 8 + (across >> 2)])
        tints = canvas.tints[attributes >> ((down & 2) << 1 | across & 2) & 3]
        backdrop, one, two, both = tints[0], tints[1], tints[2], tints[3]
        pattern = bank + tile * 8
        for index in range(count):
            low, high = game.masks[pattern + index, 0], game.masks[pattern + index, 1]
            canvas.words[line + index, word] = (
                backdrop ^ (low & one) ^ (high & two) ^ (low & high & both)
            )
            canvas.opaque[line + index, word] = game.opacity[0, pattern + index]
        across += 1
        if across == 32:
            across = 0
            v ^= 0x0400
    for index in range(line, line + count):
        canvas.offset[index] = registers[FINE_X]
        if mask & LEFT_EDGE_SHOWN == 0:
            _hide_left_edge(canvas, index)


@kernel
def paint_piece(
    row: Array, registers: Array, machine: Machine, line: int, begin: int, end: int
) -> None:
    """Draw the pixels from `begin` to `end` of a line that changes before it is complete."""
    canvas = machine.canvas
    spare = integer(HEIGHT)
    mix_tints(row, registers, canvas)
    paint_lines(row, registers, machine, spare, 1, integer(registers[V]))
    canvas.offset[line] = 0
    for pixel in range(begin, end):
        place = canvas.offset[spare] + pixel
        bit = 0x80 >> (pixel & 7)
        canvas.bytes[line, pixel] = canvas.bytes[spare, place]
        if canvas.opaque[spare, place >> 3] & (0x80 >> (place & 7)):
            canvas.opaque[line, pixel >> 3] |= bit
        else:
            canvas.opaque[line, pixel >> 3] &= ~bit
