"""What the native code is handed beside a console's row: the cartridge and a sheet to draw on.

Both are single records, so that handing them on is handing on a pointer.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from longhaul.core.env import Array
from longhaul.envs.nes.cartridge import Cartridge
from longhaul.envs.nes.layout import HEIGHT, HORIZONTAL, VERTICAL
from longhaul.envs.nes.machine_code import native_program

TILES = 512
"""Patterns on a cartridge: two banks of 256."""
LINES = HEIGHT + 1
"""One more than the screen has, to put lines together."""
WORDS = 34
"""Of eight pixels, in a line: the screen and one tile more, cut by the scroll on both sides."""

GAME = np.dtype(
    [
        ("prg", np.uint8, (32768,)),  # the program from $8000 on
        ("chr", np.uint8, (8192,)),  # the patterns as the program sees them
        ("masks", np.uint64, (4096, 2)),  # low and high bits of a pattern's row, a byte each
        ("opacity", np.uint8, (2, 4096)),  # a bit for each pixel that is seen; then flipped
        ("pixels", np.uint8, (4096, 8)),  # 0 to 3
        ("mirroring", np.int64),
        ("code", np.int64),  # where the program is as native code
    ],
    align=True,
)
"""A cartridge, decoded so that nothing has to be taken apart while drawing."""

_SHEET = np.dtype(
    [
        ("words", np.uint64, (LINES, WORDS)),  # eight pixels each
        ("tints", np.uint64, (4, 4)),  # what turns masks into shades, for each of four palettes
        ("offset", np.int64, (LINES,)),  # where in its row of bytes a line's first pixel is
        ("opaque", np.uint8, (LINES, 36)),  # bits of pixels the background covers, from byte 0 on
        ("claimed", np.uint8, (LINES, 36)),  # bits of pixels a sprite has taken, from pixel 0 on
        ("crowd", np.uint8, (LINES,)),  # sprites drawn in the line
        ("counts", np.uint8, (272,)),  # sprites in the line, while looking for too many
        ("shades", np.uint8, (64,)),  # what is drawn for each colour
        ("drawing", np.uint8, (1,)),  # whether anything is drawn
    ],
    align=True,
)


def _with_bytes(sheet: np.dtype[Any]) -> np.dtype[Any]:
    """Return the record with the memory of `words` a second time, as `bytes`."""
    fields = dict(sheet.fields or {})
    fields["bytes"] = (np.dtype((np.uint8, (LINES, 8 * WORDS))), fields["words"][1])
    return np.dtype(
        {
            "names": list(fields),
            "formats": [field[0] for field in fields.values()],
            "offsets": [field[1] for field in fields.values()],
            "itemsize": sheet.itemsize,
        }
    )


CANVAS = _with_bytes(_SHEET)
"""A picture being drawn, in shades."""

Game: TypeAlias = Any
"""A record of `GAME`."""
Canvas: TypeAlias = Any
"""A record of `CANVAS`."""


class Machine(NamedTuple):
    """All that a console works with beside its row."""

    game: Game
    canvas: Canvas


def decode(cartridge: Cartridge) -> Array:
    """Return the cartridge as the native code wants it, [1] of `GAME`."""
    planes = np.frombuffer(cartridge.chr, np.uint8).reshape(TILES, 2, 8)
    bits = np.unpackbits(planes[..., None], axis=-1)  # [tile, plane, row, column]
    low, high = bits[:, 0].reshape(-1, 8), bits[:, 1].reshape(-1, 8)
    masks = np.stack([low, high], axis=1) * np.uint8(255)  # [tile * row, plane, column]
    covered = low | high
    prg = np.frombuffer(cartridge.prg, np.uint8)
    games = np.zeros(1, GAME)
    game = games[0]
    game["prg"] = np.tile(prg, 32768 // len(prg))
    game["chr"] = np.frombuffer(cartridge.chr, np.uint8)
    game["masks"] = np.ascontiguousarray(masks).view(np.uint64)[..., 0]
    game["opacity"][0] = np.packbits(covered, axis=1)[:, 0]
    game["opacity"][1] = np.packbits(covered[:, ::-1], axis=1)[:, 0]
    game["pixels"] = low + 2 * high
    game["mirroring"] = VERTICAL if cartridge.mirroring == "vertical" else HORIZONTAL
    game["code"] = native_program(game["prg"].tobytes())
    return games


def new_canvases(members: int) -> Array:
    """Return two sheets for each of some threads, [members, 2] of `CANVAS`."""
    return np.zeros((members, 2), CANVAS)
