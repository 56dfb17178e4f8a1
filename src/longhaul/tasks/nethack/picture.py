"""Drawing the game's terminal as a picture."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array
from longhaul.core.errors import EnvError

SCALE = 2
PALETTE = np.array(
    [
        *((30, 30, 38), (205, 60, 60), (60, 170, 70), (180, 120, 50)),
        *((80, 110, 230), (190, 80, 190), (60, 170, 180), (200, 200, 200)),
        *((120, 120, 130), (255, 110, 90), (110, 230, 110), (255, 230, 90)),
        *((120, 160, 255), (255, 120, 255), (110, 240, 240), (255, 255, 255)),
    ],
    np.float32,
)
"""Colours of the terminal, dark ones lifted so that they can be seen in a film."""
BACKGROUND = np.array((12, 12, 18), np.float32)
LETTERS = 128
COLOUR_BITS = 15


@lru_cache(maxsize=1)
def letter_shapes() -> NDArray[np.float32]:
    """Return how each letter is drawn [128, height, width], between 0 and 1."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ModuleNotFoundError:
        raise EnvError(
            "drawing NetHack's terminal needs Pillow: install the extra 'video' of your longhaul "
            "checkout (pip install -e '.[video]') or Pillow itself (pip install pillow)"
        ) from None
    font = ImageFont.load_default_imagefont()
    width, height = 6, 11
    shapes = np.zeros((LETTERS, height, width), np.float32)
    for code in range(33, LETTERS - 1):
        letter = Image.new("L", (width, height))
        ImageDraw.Draw(letter).text((0, 0), chr(code), fill=255, font=font)
        shapes[code] = np.asarray(letter, np.float32) / 255.0
    return shapes


def draw_terminal(letters: Array, colours: Array) -> NDArray[np.uint8]:
    """Return the picture [height, width, 3] of letters and colours [lines, columns]."""
    shapes = letter_shapes()[np.minimum(letters, LETTERS - 1)]  # [lines, columns, height, width]
    ink = PALETTE[colours & COLOUR_BITS] - BACKGROUND
    picture = BACKGROUND + shapes[..., None] * ink[:, :, None, None, :]
    lines, columns, height, width = shapes.shape
    flat = picture.transpose(0, 2, 1, 3, 4).reshape(lines * height, columns * width, 3)
    large: NDArray[np.uint8] = flat.astype(np.uint8).repeat(SCALE, 0).repeat(SCALE, 1)
    return large
