"""The beam: brings the picture up to the present before something that shows is changed."""

from __future__ import annotations

from longhaul.core.env import Array
from longhaul.envs.nes.background import mix_tints, paint_lines, paint_piece
from longhaul.envs.nes.game import Machine
from longhaul.envs.nes.layout import (
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
    PIXEL,
    SCROLL_TAKEN,
    SPRITE_ZERO_DOT,
    WIDTH,
    T,
    V,
)
from longhaul.envs.nes.native import integer, kernel
from longhaul.envs.nes.scroll import ACROSS, LINE_IN_TILE, next_line
from longhaul.envs.nes.sprites import overflow_dot, paint_sprites, sprite_zero_dot

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
