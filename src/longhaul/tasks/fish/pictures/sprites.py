"""Small pictures that are painted once and stamped many times."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Canvas = NDArray[np.uint8]  # [height, width, 3]
Color = tuple[float, float, float]
Grid = NDArray[np.float32]

HEADINGS = 36
PARTS = 2
"""Places between two pixels a stamp can have, along each axis."""


@dataclass(frozen=True, slots=True)
class Sprite:
    """Colors to lay over a picture, around a middle pixel."""

    keeps: Grid  # [side, side, 1], how much of what is below stays
    adds: Grid  # [side, side, 3], with the half that makes cutting off decimals round
    reach: int  # pixels from the middle to the edge


class Painter:
    """Paints shapes with soft edges onto a small empty square."""

    def __init__(self, reach: int, shift: tuple[int, int] = (0, 0)) -> None:
        line = np.arange(-reach, reach + 1, dtype=np.float32)
        # Rows grow downwards, so the world's +y is minus a row.
        self._x = line[None, :] - shift[0] / PARTS
        self._y = -line[:, None] + shift[1] / PARTS
        side = 2 * reach + 1
        self._keeps = np.ones((side, side, 1), np.float32)
        self._adds = np.zeros((side, side, 3), np.float32)

    def disc(
        self, x: float, y: float, radius: float, color: Color, *, strength: float = 1.0
    ) -> None:
        """Paint a disc, in pixels from the middle."""
        distance = np.hypot(self._x - x, self._y - y)
        self.lay(np.clip(radius + 0.5 - distance, 0, 1) * strength, color)

    def ring(self, radius: float, width: float, color: Color, *, strength: float = 1.0) -> None:
        """Paint a circle around the middle."""
        distance = np.abs(np.hypot(self._x, self._y) - radius)
        self.lay(np.clip(width / 2 + 0.5 - distance, 0, 1) * strength, color)

    def cross(self, arm: float, width: float, color: Color, *, strength: float = 1.0) -> None:
        """Paint two crossed strokes."""
        falling, rising = np.abs(self._x + self._y), np.abs(self._x - self._y)
        stroke = np.minimum(falling, rising) / np.sqrt(2)
        reach = np.hypot(self._x, self._y)
        cover = np.clip(width / 2 + 0.5 - stroke, 0, 1) * np.clip(arm + 0.5 - reach, 0, 1)
        self.lay(cover * strength, color)

    def lay(self, cover: Grid, color: Color) -> None:
        """Lay a color over what is there, as much of it as `cover` says."""
        cover = cover.astype(np.float32)[..., None]
        self._keeps *= 1 - cover
        self._adds = self._adds * (1 - cover) + np.array(color, np.float32) * cover

    def sprite(self) -> Sprite:
        """Return what was painted."""
        return Sprite(self._keeps, self._adds + np.float32(0.5), len(self._keeps) // 2)


def stamp(canvas: Canvas, sprite: Sprite, column: int, row: int) -> None:
    """Lay a sprite over the picture with its middle at a pixel; what is outside is cut off."""
    reach = sprite.reach
    top, left = row - reach, column - reach
    side = 2 * reach + 1
    if min(top, left) >= 0 and top + side <= canvas.shape[0] and left + side <= canvas.shape[1]:
        _blend(canvas[top : top + side, left : left + side], sprite.keeps, sprite.adds)
        return
    rows = slice(max(-top, 0), min(side, canvas.shape[0] - top))
    columns = slice(max(-left, 0), min(side, canvas.shape[1] - left))
    if rows.start >= rows.stop or columns.start >= columns.stop:
        return
    patch = canvas[top + rows.start : top + rows.stop, left + columns.start : left + columns.stop]
    _blend(patch, sprite.keeps[rows, columns], sprite.adds[rows, columns])


def _blend(patch: Canvas, keeps: Grid, adds: Grid) -> None:
    blended = patch * keeps
    blended += adds
    patch[...] = blended


@functools.cache
def fish_sprite(heading: int, wag: int, shift: tuple[int, int], look: FishLook) -> Sprite:
    """Return a fish that swims towards one of the headings, its tail to one side or the other."""
    angle = 2 * np.pi * heading / HEADINGS
    ahead, up = float(np.cos(angle)), float(np.sin(angle))
    size = look.size
    painter = Painter(int(2.6 * size) + 2, shift)

    def put(along: float, aside: float, radius: float, color: Color) -> None:
        x, y = ahead * along - up * aside, up * along + ahead * aside
        painter.disc(x * size, y * size, radius * size, color)

    for along, aside, radius in ((-2.1, 0.42, 0.34), (-1.75, 0.26, 0.34), (-1.4, 0.12, 0.38)):
        put(along, aside * wag, radius, look.fin)
    for along, radius in ((-0.95, 0.5), (-0.5, 0.66), (0.0, 0.8), (0.45, 0.66), (0.8, 0.4)):
        put(along, 0.0, radius, look.body)
    for along, radius in ((-0.3, 0.3), (0.15, 0.36)):
        put(along, 0.0, radius, look.back)
    for side in (-0.38, 0.38):
        put(0.62, side, 0.2, look.eye)
    return painter.sprite()


@dataclass(frozen=True, slots=True)
class FishLook:
    """How a fish is colored; `size` is half its body's width in pixels."""

    size: float
    body: Color
    back: Color
    fin: Color
    eye: Color = (18.0, 26.0, 34.0)
