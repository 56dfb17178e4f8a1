"""The beam: brings the picture up to the present before something that shows is changed."""

from __future__ import annotations

from typing import Any

import numpy as np

from longhaul.core.env import Array
from longhaul.core.native import integer, kernel
from longhaul.tasks.mario.console.game import Canvas, Machine
from longhaul.tasks.mario.console.layout import (
    CONTROL,
    FINE_X,
    FIRST_PIXEL,
    FRAME_DOTS,
    FRAME_END,
    HEIGHT,
    LINE,
    LINE_DOTS,
    LINE_FETCHED,
    LINE_ZERO,
    MASK,
    ODD_FRAME,
    OVERFLOW_DOT,
    PALETTE,
    PIXEL,
    SCROLL_TAKEN,
    SPRITE_ZERO_DOT,
    WIDTH,
    T,
    V,
)
from longhaul.tasks.mario.console.picture import ACROSS, LINE_IN_TILE, next_line, table_base
from longhaul.tasks.mario.console.sprites import overflow_dot, paint_sprites, sprite_zero_dot

BACKGROUND_SHOWN = 0x08
LEFT_EDGE_SHOWN = 0x02
GRAY_ONLY = 0x01
EVERY_BYTE = np.uint64(0x0101010101010101)
TILES_ACROSS = 33
"""One more than fit: the first and the last are cut by the fine scroll."""


@kernel
def _shade(row: Array, registers: Array, canvas: Canvas, entry: int) -> Any:
    """Return eight pixels of what an entry of the palette is drawn as."""
    gray = 0x30 if registers[MASK] & GRAY_ONLY else 0x3F
    return np.uint64(canvas.shades[row[PALETTE + entry] & gray]) * EVERY_BYTE


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


SHOWN = 0x18
"""Either background or sprites: the chip walks through video memory."""


@kernel
def begin_picture(row: Array, registers: Array, machine: Machine) -> None:
    """Set the beam to the first line, where the program wants it to begin."""
    skipped = 0
    if registers[MASK] & SHOWN:
        registers[V] = registers[T]
        skipped = registers[ODD_FRAME]
    registers[ODD_FRAME] ^= 1
    registers[LINE_ZERO] = FIRST_PIXEL - skipped
    registers[FRAME_END] = FRAME_DOTS - skipped
    registers[LINE] = 0
    registers[PIXEL] = 0
    if machine.canvas.drawing[0]:
        machine.canvas.claimed[:] = 0
        machine.canvas.crowd[:] = 0
    look_ahead(row, registers, machine)


@kernel
def look_ahead(row: Array, registers: Array, machine: Machine) -> None:
    """Find out when the flags of the sprites will rise if nothing is changed."""
    registers[SPRITE_ZERO_DOT] = sprite_zero_dot(row, registers, machine.game)
    registers[OVERFLOW_DOT] = overflow_dot(row, registers, machine)


@kernel
def _alike(v: int, t: int, most: int) -> int:
    """Return how many lines from `v` on show the same tiles, at most `most`."""
    if (v ^ t) & ACROSS:
        return 1
    return min(8 - ((v & LINE_IN_TILE) >> 12), most)


@kernel
def _show_lines(row: Array, registers: Array, machine: Machine, last: int) -> None:
    """Put out the lines up to `last` as things are."""
    first = integer(registers[LINE])
    shown = registers[MASK] & SHOWN
    drawing = machine.canvas.drawing[0]
    v, t = integer(registers[V]), integer(registers[T])
    if drawing:
        mix_tints(row, registers, machine.canvas)
    line = first
    while line < last:
        count = _alike(v, t, last - line)
        if drawing:
            if line == first and registers[PIXEL] > 0:
                count = 1
                paint_piece(
                    row, registers, machine, line, integer(registers[PIXEL]), integer(WIDTH)
                )
            else:
                paint_lines(row, registers, machine, line, count, v)
        if shown:
            for _ in range(count):
                v = next_line(v, t)
        line += count
    if drawing:
        paint_sprites(row, registers, machine, first, last)
    registers[V] = v
    registers[LINE] = last
    registers[PIXEL] = 0


@kernel
def follow(row: Array, registers: Array, machine: Machine, dot: int) -> None:
    """Put out everything that the beam has passed at `dot`."""
    elapsed = dot - registers[LINE_ZERO]
    if dot < SCROLL_TAKEN or elapsed < 0:
        return
    due = min((elapsed - LINE_FETCHED) // LINE_DOTS + 1, HEIGHT) if elapsed >= LINE_FETCHED else 0
    if due > registers[LINE]:
        _show_lines(row, registers, machine, due)
    pixel = integer(min(elapsed - registers[LINE] * LINE_DOTS, WIDTH))
    if machine.canvas.drawing[0] and registers[LINE] < HEIGHT and pixel > registers[PIXEL]:
        line = integer(registers[LINE])
        paint_piece(row, registers, machine, line, integer(registers[PIXEL]), pixel)
        registers[PIXEL] = pixel


@kernel
def finish_picture(row: Array, registers: Array, machine: Machine) -> None:
    """Put out the rest."""
    if registers[LINE] < HEIGHT:
        _show_lines(row, registers, machine, integer(HEIGHT))


@kernel
def scroll_changed(row: Array, registers: Array, machine: Machine, dot: int) -> None:
    """Look again for sprite 0 if it has not been met by `dot`, because something changed."""
    if registers[LINE] < HEIGHT and dot < registers[SPRITE_ZERO_DOT]:
        registers[SPRITE_ZERO_DOT] = sprite_zero_dot(row, registers, machine.game)


@kernel
def sprites_changed(row: Array, registers: Array, machine: Machine, dot: int) -> None:
    """Look again for what has not been met by `dot`, because sprites changed."""
    scroll_changed(row, registers, machine, dot)
    if registers[LINE] < HEIGHT and dot < registers[OVERFLOW_DOT]:
        registers[OVERFLOW_DOT] = overflow_dot(row, registers, machine)
