"""The stand-in's patterns, drawn with characters: ` `, `.`, `o`, `#` are colours 0 to 3."""

from __future__ import annotations

import numpy as np

COLOURS = {" ": 0, ".": 1, "o": 2, "#": 3}
GLYPHS = {
    "0": " ### #   ##   ##   ##   ##   # ###  ",
    "1": "  #   ##    #    #    #    #   ###  ",
    "2": " ### #   #    #  ##  #   #    ##### ",
    "3": " ### #   #    #  ##     ##   # ###  ",
    "4": "#   ##   ##   ######    #    #    # ",
    "5": "######    ####     #    ##   # ###  ",
    "6": " ### #    #    #### #   ##   # ###  ",
    "7": "#####    #   #   #   #    #    #    ",
    "8": " ### #   ##   # ### #   ##   # ###  ",
    "9": " ### #   ##   # ####    #    # ###  ",
    "P": "#### #   ##   ##### #    #    #    ",
    "R": "#### #   ##   ##### # #  #  # #   #",
    "E": "######    #    #### #    #    #####",
    "S": " #####    #     ###     #    ##### ",
    "T": "#####  #    #    #    #    #    #  ",
    "A": " ### #   ##   #######   ##   ##   #",
}
"""Seven rows of five."""
GLYPH_TILES = "0123456789" + " " * 16 + "PREST" + "A"
"""Which pattern of the background each of them is."""
GROUND = (
    "oooooooo",
    "o......o",
    "o......o",
    "o......o",
    "oooooooo",
    "...oo...",
    "...oo...",
    "oooooooo",
)
BRICK = (
    "########",
    "...#....",
    "...#....",
    "########",
    ".......#",
    ".......#",
    "########",
    "...#....",
)
POLE = ("   ##   ",) * 8
BAR = (*("        ",) * 6, "oooooooo", "########")
"""Below the status line; only its last line meets sprite 0."""
MARK = ("########", *("        ",) * 7)
"""Sprite 0."""
RUNNER = (
    "       ##       ",
    "       ##       ",
    "        o       ",
    "   oooooooooo   ",
    "  oooooooooooo  ",
    "  ooo...oo...o  ",
    "  ooo..#oo..#o  ",
    "  ooo...oo...o  ",
    "  oooooooooooo  ",
    "  oooo#######o  ",
    "   oooooooooo   ",
    "    oooooooo    ",
    "    ##    ##    ",
    "    ##    ##    ",
    "   ###   ###    ",
    "   ####  ####   ",
)
"""A robot."""
WALKER = (
    "                ",
    "                ",
    "  o    o    o   ",
    "  oo  ooo  oo   ",
    "  ooooooooooo   ",
    " ooooooooooooo  ",
    " o...ooooo...o  ",
    "oo.##ooooo##.oo ",
    "oo...ooooo...oo ",
    "ooooooooooooooo ",
    "oo.oo.ooo.oo.oo ",
    "ooooooooooooooo ",
    " #############  ",
    "  #  #  #  #  # ",
    "  #  #  #  #  # ",
    " ##  # ##  #  ##",
)
"""A beetle with spikes."""

GROUND_TILE, BRICK_TILE, POLE_TILE, BAR_TILE = 10, 11, 12, 13
RUNNER_TILE, WALKER_TILE = 16, 20
"""Each of four patterns: left and right of the upper half, then of the lower."""
BACKGROUND_BANK = 256


def _glyph(text: str) -> tuple[str, ...]:
    text = text.ljust(35)
    rows = [f"{text[row * 5 : row * 5 + 5]:<8}" for row in range(7)]
    return (*rows, " " * 8)


def _encode(rows: tuple[str, ...]) -> bytes:
    """Return the sixteen bytes of eight rows of eight characters."""
    numbers = np.array([[COLOURS[character] for character in row] for row in rows], np.uint8)
    planes = np.stack([numbers & 1, numbers >> 1])
    return np.packbits(planes, axis=-1).tobytes()


def _quarters(rows: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the four patterns of a picture of 16x16."""
    halves = (rows[:8], rows[8:])
    return [tuple(row[side : side + 8] for row in half) for half in halves for side in (0, 8)]


def patterns() -> bytes:
    """Return the 8 KiB of patterns: sprites in the first bank, background in the second."""
    found: dict[int, tuple[str, ...]] = {}
    for character, text in GLYPHS.items():
        found[BACKGROUND_BANK + GLYPH_TILES.index(character)] = _glyph(text)
    found[BACKGROUND_BANK + GROUND_TILE] = GROUND
    found[BACKGROUND_BANK + BRICK_TILE] = BRICK
    found[BACKGROUND_BANK + POLE_TILE] = POLE
    found[BACKGROUND_BANK + BAR_TILE], found[BAR_TILE] = BAR, MARK
    for first, picture in ((RUNNER_TILE, RUNNER), (WALKER_TILE, WALKER)):
        for index, quarter in enumerate(_quarters(picture)):
            found[first + index] = quarter
    blank = bytes(16)
    return b"".join(_encode(found[tile]) if tile in found else blank for tile in range(512))
