"""What of a console's screen an agent is shown, and how it is kept."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array
from longhaul.core.errors import ConfigError
from longhaul.core.native import integer, kernel
from longhaul.tasks.mario.console.game import Canvas
from longhaul.tasks.mario.console.layout import HEIGHT, HORIZONTAL, NAMETABLES, WIDTH

ACROSS = 0x041F
"""The bits of the address that say how far to the right."""
ONE_LINE = 0x1000
LINE_IN_TILE = 0x7000
TILE_ROW = 0x03E0
LAST_TILE_ROW = 29 << 5


@kernel
def table_base(v: int, mirroring: int) -> int:
    """Return where in a console's row the screen that `v` points into begins."""
    which = v >> 11 & 1 if mirroring == HORIZONTAL else v >> 10 & 1
    return NAMETABLES + (which << 10)


@kernel
def below(v: int) -> int:
    """Return the address one line further down."""
    if v & LINE_IN_TILE != LINE_IN_TILE:
        return v + ONE_LINE
    v &= ~LINE_IN_TILE
    if v & TILE_ROW == LAST_TILE_ROW:
        return (v & ~TILE_ROW) ^ 0x0800
    if v & TILE_ROW == TILE_ROW:
        return v & ~TILE_ROW
    return v + (1 << 5)


@kernel
def next_line(v: int, t: int) -> int:
    """Return the address at which the next line begins."""
    return (below(v) & ~ACROSS) | (t & ACROSS)


@kernel
def to_the_right(v: int) -> int:
    """Return the address one tile further to the right."""
    if v & 31 == 31:
        return (v & ~31) ^ 0x0400
    return v + 1


@kernel
def tile_row(row: Array, v: int, control: int, mirroring: int) -> int:
    """Return which row of eight pixels the background has at `v`, counted over all patterns."""
    tile = integer(row[table_base(v, mirroring) + (v & 0x3FF)])
    return (((control & 0x10) << 4) + tile) * 8 + (v >> 12 & 7)


@dataclass(frozen=True, slots=True)
class Picture:
    """The size and kind of the pictures, and how many of the latest are kept."""

    height: int = 84
    """Rows of the picture; the screen has 240 lines."""
    width: int = 84
    """Columns of the picture; the screen has 256 pixels across."""
    stack: int = 4
    """How many of the latest pictures are kept, oldest first."""
    color: bool = False
    """Whether pictures are red, green and blue instead of gray."""
    two_frames: bool = False
    """Whether each pixel is the brighter one of the last two frames: sprites may flicker."""
    first_line: int = 0
    """The first line of the screen that is shown; 32 leaves out a status bar of four tiles."""
    last_line: int = HEIGHT
    """The line of the screen before which the picture ends."""

    def __post_init__(self) -> None:
        if not 0 <= self.first_line < self.last_line <= HEIGHT:
            raise ConfigError(
                f"a picture shows lines first_line to last_line of 0 to {HEIGHT}, "
                f"not {self.first_line} to {self.last_line}"
            )
        lines = self.last_line - self.first_line
        if not 1 <= self.height <= lines or not 1 <= self.width <= WIDTH:
            raise ConfigError(
                f"a picture is made smaller, to at most {lines} x {WIDTH}, "
                f"not to {self.height} x {self.width}"
            )
        if self.stack < 1:
            raise ConfigError(f"at least 1 picture is kept, not {self.stack}")

    @property
    def channels(self) -> int:
        """Planes of one picture."""
        return 3 if self.color else 1

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of what is kept of one console, planes first."""
        return (self.stack * self.channels, self.height, self.width)


WHOLE_SCREEN = Picture(height=HEIGHT, width=WIDTH, stack=1)


class PictureKind(NamedTuple):
    """A kind of picture as the native code wants it."""

    shrinking: Shrinking
    shades: Array  # [64] uint8: what is drawn for each color
    levels: Array  # [planes, 256] uint8: what a drawn byte is shown as in each plane
    two_frames: bool


def make_view(picture: Picture) -> PictureKind:
    """Return the tables behind a kind of picture."""
    identity = np.arange(256, dtype=np.uint8)
    levels = identity[None].copy()
    if picture.color:
        levels = np.zeros((3, 256), np.uint8)
        levels[:, :64] = colors().T
    return PictureKind(
        shrinking((picture.first_line, picture.last_line), picture.height, picture.width),
        identity[:64].copy() if picture.color else grays(),
        levels,
        picture.two_frames,
    )


def color_view() -> PictureKind:
    """Return the view whose one plane holds the number of the color of every pixel."""
    return make_view(WHOLE_SCREEN)._replace(shades=np.arange(64, dtype=np.uint8))


@kernel
def keep_picture(canvas: Canvas, other: Canvas, view: PictureKind, stack: Array) -> None:
    """Put what is on the canvas behind the latest pictures and drop the oldest one."""
    planes = view.levels.shape[0]
    for plane in range(stack.shape[0] - planes):
        stack[plane] = stack[plane + planes]
    for plane in range(planes):
        out = stack[stack.shape[0] - planes + plane]
        shrink(canvas, other, view.levels[plane], view.shrinking, out)


LOW_LEVELS = (0.350, 0.518, 0.962, 1.550)
"""Volts of the lower half of the color wave, for the four levels of brightness."""
HIGH_LEVELS = (1.094, 1.506, 1.962, 1.962)
BLACK = 0.518
WHITE = 1.962
PHASES = 12
HUE = 3.9
"""Twelfths by which a television's hue knob turns the colors."""
SATURATION = 1.0
LUMA = (0.299, 0.587, 0.114)


def _signal(color: int, phase: int) -> float:
    """Return the voltage of a color at one twelfth of the color wave, black 0 and white 1."""
    hue, level = color & 0x0F, color >> 4
    if hue > 13:
        level = 1
    low, high = LOW_LEVELS[level], HIGH_LEVELS[level]
    if hue == 0:
        low = high
    if hue > 12:
        high = low
    volts = high if (hue + phase) % PHASES < PHASES // 2 else low
    return (volts - BLACK) / (WHITE - BLACK)


@functools.cache
def _colors() -> NDArray[np.uint8]:
    phases = np.arange(PHASES)
    angle = np.pi * (phases + HUE) / 6
    wave = np.array([[_signal(color, int(phase)) for phase in phases] for color in range(64)])
    y = wave.mean(axis=1)
    i = (wave * np.cos(angle)).mean(axis=1) * 2 * SATURATION
    q = (wave * np.sin(angle)).mean(axis=1) * 2 * SATURATION
    rgb = np.stack(
        [y + 0.956 * i + 0.621 * q, y - 0.272 * i - 0.647 * q, y - 1.106 * i + 1.703 * q], axis=1
    )
    levels: NDArray[np.uint8] = np.round(np.clip(rgb, 0, 1) * 255).astype(np.uint8)
    return levels


def colors() -> NDArray[np.uint8]:
    """Return red, green and blue of each color, [64, 3]."""
    return _colors().copy()


def grays() -> NDArray[np.uint8]:
    """Return how bright each color is, [64]."""
    levels: NDArray[np.uint8] = np.round(_colors() @ np.array(LUMA)).astype(np.uint8)
    return levels


class Shrinking(NamedTuple):
    """How lines and columns of the screen are shared among those of a smaller picture."""

    first_line: int
    last_line: int
    target: Array  # [last - first] int64: the row of the picture a line belongs to
    share: Array  # [last - first] float32: how much of that row it is
    rest: Array  # [last - first] float32: how much it is of the next row; 0 unless a row ends here
    column: Array  # [width] int64: the first pixel of each column of the picture
    weights: Array  # [taps, width] float32: of the pixels from there on


def _overlaps(inputs: int, outputs: int) -> NDArray[np.float64]:
    """Return how much of each output every input is, [outputs, inputs]."""
    edges = np.arange(outputs + 1) * (inputs / outputs)
    pixels = np.arange(inputs)
    begin = np.maximum(edges[:-1, None], pixels)
    end = np.minimum(edges[1:, None], pixels + 1)
    shares: NDArray[np.float64] = np.maximum(end - begin, 0) / (inputs / outputs)
    return shares


def shrinking(lines: tuple[int, int], height: int, width: int) -> Shrinking:
    """Return how the lines from `lines[0]` to `lines[1]` become a picture of that size."""
    down = _overlaps(lines[1] - lines[0], height)
    down[down < 1e-9] = 0
    target = (down > 0).argmax(axis=0)
    index = np.arange(len(target))
    rest = np.where(target + 1 < height, down[np.minimum(target + 1, height - 1), index], 0.0)
    across = _overlaps(WIDTH, width)
    taps = int((across > 1e-9).sum(axis=1).max())
    column = np.minimum((across > 1e-9).argmax(axis=1), WIDTH - taps)
    weights = np.stack([across[np.arange(width), column + tap] for tap in range(taps)])
    return Shrinking(
        first_line=lines[0],
        last_line=lines[1],
        target=target.astype(np.int64),
        share=down[target, index].astype(np.float32),
        rest=rest.astype(np.float32),
        column=column.astype(np.int64),
        weights=weights.astype(np.float32),
    )


@kernel
def _finish_row(total: Array, out: Array, shrinking: Shrinking) -> None:
    """Write a row of the picture from the sums over its lines."""
    weights = shrinking.weights
    for place in range(out.shape[0]):
        first = shrinking.column[place]
        value = np.float32(0.5)
        for tap in range(weights.shape[0]):
            value += weights[tap, place] * total[first + tap]
        out[place] = np.uint8(value)


@kernel
def _translate(canvas: Canvas, other: Canvas, levels: Array, line: int, pixels: Array) -> None:
    """Write a line in `levels`, the brighter of both canvases if both were drawn on."""
    begin = canvas.offset[line]
    for x in range(WIDTH):
        pixels[x] = levels[canvas.bytes[line, begin + x]]
    if other.drawing[0]:
        begin = other.offset[line]
        for x in range(WIDTH):
            pixels[x] = max(pixels[x], levels[other.bytes[line, begin + x]])


@kernel
def shrink(canvas: Canvas, other: Canvas, levels: Array, shrinking: Shrinking, out: Array) -> None:
    """Write what is on the canvas, looked up in `levels`, into `out`, [height, width].

    If the other canvas was drawn on as well, take the brighter of both.
    """
    total = np.zeros(WIDTH, np.float32)
    pixels = np.zeros(WIDTH, np.uint8)
    # A picture in gray is drawn as it is shown.
    translated = levels[1] != 1
    count = shrinking.last_line - shrinking.first_line
    for index in range(count):
        line = shrinking.first_line + index
        if translated or other.drawing[0]:
            _translate(canvas, other, levels, line, pixels)
        else:
            begin = canvas.offset[line]
            pixels = canvas.bytes[line, begin : begin + WIDTH]
        share, rest = shrinking.share[index], shrinking.rest[index]
        for x in range(WIDTH):
            total[x] += share * pixels[x]
        row = shrinking.target[index]
        if index + 1 == count or shrinking.target[index + 1] != row or rest > 0:
            _finish_row(total, out[row], shrinking)
            for x in range(WIDTH):
                total[x] = rest * pixels[x]
