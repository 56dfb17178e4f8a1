"""Sprites: when the first one meets the background, when there are too many, and their picture."""

from __future__ import annotations

from longhaul.core.env import Array
from longhaul.core.native import integer, kernel
from longhaul.tasks.mario.console.game import Canvas, Game, Machine
from longhaul.tasks.mario.console.layout import (
    CONTROL,
    FINE_X,
    HEIGHT,
    LINE,
    LINE_DOTS,
    LINE_ZERO,
    MASK,
    NEVER,
    OAM,
    PALETTE,
    WIDTH,
    T,
    V,
)
from longhaul.tasks.mario.console.picture import next_line, tile_row, to_the_right

FLIP_ACROSS = 0x40
FLIP_DOWN = 0x80
BEHIND = 0x20
BOTH_SHOWN = 0x18
SPRITES_SHOWN = 0x10
TALL = 0x20
AT_MOST = 8
"""Sprites on one line."""
HIT_DELAY = 1
"""Dots from the pixel at which sprite 0 meets the background to the flag."""


@kernel
def sprite_height(control: int) -> int:
    """Return how many lines a sprite has."""
    return 16 if control & TALL else 8


@kernel
def pattern_row(control: int, tile: int, attributes: int, line: int) -> int:
    """Return which row of eight pixels a sprite has in its `line`, counted over all patterns."""
    if attributes & FLIP_DOWN:
        line = sprite_height(control) - 1 - line
    if control & TALL:
        return (((tile & 1) << 8) + (tile & 0xFE) + (line >> 3)) * 8 + (line & 7)
    return (((control & 8) << 5) + tile) * 8 + line


@kernel
def _background_bits(row: Array, registers: Array, game: Game, v: int, x: int) -> int:
    """Return which of the eight pixels from `x` on of the line at `v` the background covers."""
    place = (v & 31) * 8 + integer(registers[FINE_X]) + x
    v = (v & ~31) ^ ((place >> 8 & 1) << 10) | (place >> 3 & 31)
    control = registers[CONTROL]
    left = integer(game.opacity[0, tile_row(row, v, control, game.mirroring)])
    right = integer(game.opacity[0, tile_row(row, to_the_right(v), control, game.mirroring)])
    return ((left << 8 | right) >> (8 - (place & 7))) & 0xFF


@kernel
def _first_meeting(sprite: int, background: int, x: int, mask: int) -> int:
    """Return the first x at which both are there, or -1; the edges do not count."""
    both = sprite & background
    for column in range(8):
        if both & (0x80 >> column):
            where = x + column
            if where < WIDTH - 1 and (where >= 8 or mask & 6 == 6):
                return where
    return -1


@kernel
def sprite_zero_dot(row: Array, registers: Array, game: Game) -> int:
    """Return the dot at which sprite 0 meets the background from this line on, or NEVER."""
    mask = registers[MASK]
    if mask & BOTH_SHOWN != BOTH_SHOWN:
        return NEVER
    control = registers[CONTROL]
    top = integer(row[OAM]) + 1
    tile, attributes, x = integer(row[OAM + 1]), integer(row[OAM + 2]), integer(row[OAM + 3])
    flipped = 1 if attributes & FLIP_ACROSS else 0
    v = integer(registers[V])
    for line in range(registers[LINE], min(HEIGHT, top + sprite_height(control))):
        if line >= top:
            bits = integer(
                game.opacity[flipped, pattern_row(control, tile, attributes, line - top)]
            )
            if bits:
                background = _background_bits(row, registers, game, v, x)
                meeting = _first_meeting(bits, background, x, mask)
                if meeting >= 0:
                    return integer(registers[LINE_ZERO] + line * LINE_DOTS + meeting + HIT_DELAY)
        v = next_line(v, registers[T])
    return NEVER


@kernel
def _finds_too_many(row: Array, line: int, height: int) -> int:
    """Return how many dots into the line before a ninth sprite is found, or -1.

    After the eighth sprite the chip also moves on from y to tile, attributes and x: it misses
    sprites and takes other bytes for heights.
    """
    found = 0
    sprite = 0
    byte = 0
    spent = 64
    while sprite < 64:
        distance = line - 1 - integer(row[OAM + sprite * 4 + byte])
        spent += 2
        if 0 <= distance < height:
            if found == AT_MOST:
                return spent
            found += 1
            spent += 6
        elif found == AT_MOST:
            byte = (byte + 1) & 3
        sprite += 1
    return -1


@kernel
def overflow_dot(row: Array, registers: Array, machine: Machine) -> int:
    """Return the dot at which a line is found to have more than eight sprites, or NEVER."""
    if registers[MASK] & BOTH_SHOWN == 0:
        return NEVER
    height = sprite_height(registers[CONTROL])
    visible = 0
    for sprite in range(64):
        visible += row[OAM + sprite * 4] < HEIGHT - 1
    if visible < AT_MOST:
        return NEVER
    counts = machine.canvas.counts
    counts[:] = 0
    for sprite in range(64):
        top = integer(row[OAM + sprite * 4]) + 1
        for line in range(max(top, integer(registers[LINE])), min(top + height, HEIGHT)):
            counts[line] += 1
    for line in range(registers[LINE], HEIGHT):
        if counts[line] >= AT_MOST:
            spent = _finds_too_many(row, line, height)
            if spent >= 0:
                return integer(registers[LINE_ZERO] + (line - 1) * LINE_DOTS + spent)
    return NEVER


@kernel
def _claim(canvas: Canvas, line: int, x: int, bits: int, behind: int) -> int:
    """Claim the pixels of one row of a sprite; return those of its bits that are to be seen."""
    seen = 0
    for column in range(8):
        where = x + column
        bit = 0x80 >> column
        if not bits & bit or where >= WIDTH:
            continue
        claim = 0x80 >> (where & 7)
        if canvas.claimed[line, where >> 3] & claim:
            continue
        canvas.claimed[line, where >> 3] |= claim
        place = canvas.offset[line] + where
        if behind and canvas.opaque[line, place >> 3] & (0x80 >> (place & 7)):
            continue
        seen |= bit
    return seen


@kernel
def paint_sprites(row: Array, registers: Array, machine: Machine, first: int, last: int) -> None:
    """Draw what sprites have in the lines from `first` to `last`, over the background."""
    game, canvas = machine.game, machine.canvas
    mask = registers[MASK]
    if mask & SPRITES_SHOWN == 0:
        return
    control = registers[CONTROL]
    height = sprite_height(control)
    gray = 0x30 if mask & 1 else 0x3F
    for sprite in range(OAM, OAM + 256, 4):
        top = integer(row[sprite]) + 1
        if top >= last or top + height <= first:
            continue
        tile, attributes, x = (
            integer(row[sprite + 1]),
            integer(row[sprite + 2]),
            integer(row[sprite + 3]),
        )
        flipped = 1 if attributes & FLIP_ACROSS else 0
        colors = PALETTE + 16 + (attributes & 3) * 4
        for line in range(max(top, first), min(top + height, last)):
            if canvas.crowd[line] >= AT_MOST:
                continue
            canvas.crowd[line] += 1
            pattern = pattern_row(control, tile, attributes, line - top)
            bits = integer(game.opacity[flipped, pattern])
            if x < 8 and mask & 4 == 0:
                bits &= 0xFF >> (8 - x)
            if bits == 0:
                continue
            seen = _claim(canvas, line, x, bits, attributes & BEHIND)
            place = canvas.offset[line] + x
            for column in range(8):
                if seen & (0x80 >> column):
                    pixel = game.pixels[pattern, 7 - column if flipped else column]
                    color = row[colors + pixel] & gray
                    canvas.bytes[line, place + column] = canvas.shades[color]
