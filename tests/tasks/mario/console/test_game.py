from __future__ import annotations

import numpy as np

from longhaul.tasks.mario.console.game import CANVAS, Cartridge, decode, new_canvases
from longhaul.tasks.mario.console.layout import HORIZONTAL, VERTICAL

PATTERNS = np.random.default_rng(0).integers(0, 256, 8192, dtype=np.uint8)
SMALL = Cartridge(bytes(range(256)) * 64, PATTERNS.tobytes(), "horizontal")


def test_a_small_program_is_there_twice() -> None:
    (game,) = decode(SMALL)
    np.testing.assert_array_equal(game["prg"][:16384], game["prg"][16384:])
    assert game["mirroring"] == HORIZONTAL
    (other,) = decode(Cartridge(SMALL.prg, SMALL.chr, "vertical"))
    assert other["mirroring"] == VERTICAL


def test_every_form_of_a_pattern_tells_the_same_pixels() -> None:
    (game,) = decode(SMALL)
    low, high = PATTERNS.reshape(512, 2, 8).transpose(1, 0, 2).reshape(2, 4096)
    columns = np.arange(7, -1, -1)
    pixels = (low[:, None] >> columns & 1) + 2 * (high[:, None] >> columns & 1)
    np.testing.assert_array_equal(game["pixels"], pixels)
    np.testing.assert_array_equal(game["opacity"][0], low | high)
    flipped = np.packbits(pixels[:, ::-1] > 0, axis=1)[:, 0]
    np.testing.assert_array_equal(game["opacity"][1], flipped)
    masks = game["masks"].copy().view(np.uint8).reshape(4096, 2, 8)
    np.testing.assert_array_equal(masks[:, 0] // 255 + 2 * (masks[:, 1] // 255), pixels)


def test_a_canvas_is_the_same_memory_as_words_and_as_bytes() -> None:
    canvas = new_canvases(1)[0, 0]
    assert CANVAS.fields is not None
    canvas["words"][3, 1] = 0x0807060504030201
    assert canvas["bytes"][3, 8:16].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
