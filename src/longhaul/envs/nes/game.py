"""What the native code is handed beside a console's row: the cartridge and a sheet to draw on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longhaul.core.env import Array
from longhaul.envs.nes.cartridge import Cartridge
from longhaul.envs.nes.layout import HEIGHT, HORIZONTAL, VERTICAL
from longhaul.envs.nes.native import kernel

TILES = 512
"""Patterns on a cartridge: two banks of 256."""


class Game(NamedTuple):
    """A cartridge, decoded so that nothing has to be taken apart while drawing."""

    prg: Array  # [32768] uint8, the program from $8000 on
    chr: Array  # [8192] uint8, the patterns as the program sees them
    masks: Array  # [4096, 2] uint64, per row of a pattern its low and high bits, a byte each
    opacity: Array  # [2, 4096] uint8, a bit for each pixel that is not transparent; then flipped
    pixels: Array  # [4096, 8] uint8, 0 to 3
    mirroring: int


class Canvas(NamedTuple):
    """A picture being drawn, in shades; one line more than the screen, to put lines together."""

    words: Array  # [241, 34] uint64, eight pixels each
    bytes: Array  # [241, 272] uint8, the same memory
    offset: Array  # [241] int64: where in its row of bytes the line's first pixel is
    opaque: Array  # [241, 36] uint8: bits of pixels the background covers, from `bytes` 0 on
    claimed: Array  # [241, 36] uint8: bits of pixels a sprite has taken, from pixel 0 on
    crowd: Array  # [241] uint8: sprites drawn in the line
    counts: Array  # [272] uint8: sprites in the line, while looking for too many
    tints: Array  # [4, 4] uint64: what turns masks into shades, for each of the four palettes
    shades: Array  # [64] uint8: what is drawn for each colour
    drawing: Array  # [1] bool


class Machine(NamedTuple):
    """All that a console works with beside its row."""

    game: Game
    canvas: Canvas


def decode(cartridge: Cartridge) -> Game:
    """Return the cartridge as the native code wants it."""
    planes = np.frombuffer(cartridge.chr, np.uint8).reshape(TILES, 2, 8)
    bits = np.unpackbits(planes[..., None], axis=-1)  # [tile, plane, row, column]
    low, high = bits[:, 0].reshape(-1, 8), bits[:, 1].reshape(-1, 8)
    masks = np.stack([low, high], axis=1) * np.uint8(255)  # [tile * row, plane, column]
    covered = low | high
    prg = np.frombuffer(cartridge.prg, np.uint8)
    return Game(
        prg=np.tile(prg, 32768 // len(prg)),
        chr=np.frombuffer(cartridge.chr, np.uint8).copy(),
        masks=np.ascontiguousarray(masks).view(np.uint64)[..., 0].copy(),
        opacity=np.stack([np.packbits(covered, axis=1), np.packbits(covered[:, ::-1], axis=1)])[
            ..., 0
        ].copy(),
        pixels=(low + 2 * high).astype(np.uint8),
        mirroring=VERTICAL if cartridge.mirroring == "vertical" else HORIZONTAL,
    )


@kernel
def new_canvas(shades: Array) -> Canvas:
    """Return an empty sheet that is drawn on with the given shade of each colour."""
    words = np.zeros((HEIGHT + 1, 34), np.uint64)
    return Canvas(
        words,
        words.view(np.uint8),
        np.zeros(HEIGHT + 1, np.int64),
        np.zeros((HEIGHT + 1, 36), np.uint8),
        np.zeros((HEIGHT + 1, 36), np.uint8),
        np.zeros(HEIGHT + 1, np.uint8),
        np.zeros(272, np.uint8),
        np.zeros((4, 4), np.uint64),
        shades,
        np.zeros(1, np.bool_),
    )
