"""A picture as the documents of the video chip describe it, pixel by pixel and slowly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

HEIGHT, WIDTH = 240, 256


@dataclass(frozen=True)
class Scene:
    """All that is to be seen while nothing changes."""

    tables: Bytes  # [2, 1024], the two screens
    sprites: Bytes  # [64, 4]: y, tile, attributes, x
    palette: Bytes  # [32]
    patterns: Bytes  # [512, 8, 8], pixels 0 to 3
    vertical: bool
    control: int
    mask: int
    scroll_x: int  # 0 to 511
    scroll_y: int  # 0 to 479

    @property
    def sprite_lines(self) -> int:
        return 16 if self.control & 0x20 else 8


def background_pixel(scene: Scene, line: int, x: int) -> tuple[int, int]:
    """Return a pixel of the background, 0 to 3, and its palette."""
    if not scene.mask & 0x08 or (x < 8 and not scene.mask & 0x02):
        return 0, 0
    across, down = (scene.scroll_x + x) % 512, (scene.scroll_y + line) % 480
    right, below = across // 256, down // 240
    table = scene.tables[right if scene.vertical else below]
    column, row = across % 256 // 8, down % 240 // 8
    attributes = int(table[960 + row // 4 * 8 + column // 4])
    palette = attributes >> (row % 4 // 2 * 4 + column % 4 // 2 * 2) & 3
    tile = int(table[row * 32 + column]) + (256 if scene.control & 0x10 else 0)
    return int(scene.patterns[tile, down % 8, across % 8]), palette


def sprites_in(scene: Scene, line: int) -> list[int]:
    """Return the sprites of a line; no more than eight of them are shown."""
    return [
        number
        for number in range(64)
        if 0 <= line - 1 - int(scene.sprites[number, 0]) < scene.sprite_lines
    ]


def sprite_pixel(scene: Scene, number: int, line: int, x: int) -> int:
    """Return a sprite's pixel, 0 to 3; 0 where it is not."""
    y, tile, attributes, left = (int(byte) for byte in scene.sprites[number])
    column = x - left
    if not 0 <= column < 8 or not scene.mask & 0x10 or (x < 8 and not scene.mask & 0x04):
        return 0
    row = line - 1 - y
    if attributes & 0x80:
        row = scene.sprite_lines - 1 - row
    if attributes & 0x40:
        column = 7 - column
    if scene.sprite_lines == 16:
        pattern = (tile & 1) * 256 + (tile & 0xFE) + row // 8
    else:
        pattern = tile + (256 if scene.control & 0x08 else 0)
    return int(scene.patterns[pattern, row % 8, column])


def color(scene: Scene, line: int, x: int, crowd: list[int]) -> int:
    """Return the number of the color that is seen."""
    behind, palette = background_pixel(scene, line, x)
    entry = palette * 4 + behind if behind else 0
    for number in crowd:
        front = sprite_pixel(scene, number, line, x)
        if front:
            attributes = int(scene.sprites[number, 2])
            if not (behind and attributes & 0x20):
                entry = 16 + (attributes & 3) * 4 + front
            break
    return int(scene.palette[entry]) & (0x30 if scene.mask & 1 else 0x3F)


def draw_line(scene: Scene, line: int) -> Bytes:
    """Return one line of the picture in numbers of colors."""
    crowd = sprites_in(scene, line)[:8]
    return np.array([color(scene, line, x, crowd) for x in range(WIDTH)], np.uint8)


def first_hit(scene: Scene) -> tuple[int, int] | None:
    """Return the line and x at which sprite 0 first meets the background."""
    top = int(scene.sprites[0, 0]) + 1
    for line in range(top, min(top + scene.sprite_lines, HEIGHT)):
        for x in range(int(scene.sprites[0, 3]), min(int(scene.sprites[0, 3]) + 8, WIDTH - 1)):
            if sprite_pixel(scene, 0, line, x) and background_pixel(scene, line, x)[0]:
                return line, x
    return None


def overflows(scene: Scene, line: int) -> bool:
    """Tell whether the search for the sprites of a line finds a ninth one.

    Having found eight, it also moves on from y to tile, attributes and x with every sprite, and
    takes those bytes for heights.
    """
    found = byte = 0
    for number in range(64):
        is_inside = 0 <= line - 1 - int(scene.sprites[number, byte]) < scene.sprite_lines
        if is_inside and found == 8:
            return True
        if is_inside:
            found += 1
        elif found == 8:
            byte = (byte + 1) % 4
    return False
