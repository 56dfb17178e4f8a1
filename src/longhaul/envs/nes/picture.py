"""What of a console's screen an agent is shown, and how it is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from longhaul.core.env import Array
from longhaul.core.errors import ConfigError
from longhaul.envs.nes.game import Canvas
from longhaul.envs.nes.layout import HEIGHT, WIDTH
from longhaul.envs.nes.native import kernel
from longhaul.envs.nes.palette import colours, greys
from longhaul.envs.nes.shrink import Shrinking, shrink, shrinking


@dataclass(frozen=True, slots=True)
class Picture:
    """The size and kind of the pictures, and how many of the latest are kept."""

    height: int = 84
    """Rows of the picture; the screen has 240 lines."""
    width: int = 84
    """Columns of the picture; the screen has 256 pixels across."""
    stack: int = 4
    """How many of the latest pictures are kept, oldest first."""
    colour: bool = False
    """Whether pictures are red, green and blue instead of grey."""
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
        return 3 if self.colour else 1

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of what is kept of one console, planes first."""
        return (self.stack * self.channels, self.height, self.width)


WHOLE_SCREEN = Picture(height=HEIGHT, width=WIDTH, stack=1)


class View(NamedTuple):
    """A kind of picture as the native code wants it."""

    shrinking: Shrinking
    shades: Array  # [64] uint8: what is drawn for each colour
    levels: Array  # [planes, 256] uint8: what a drawn byte is shown as in each plane
    two_frames: bool


def make_view(picture: Picture) -> View:
    """Return the tables behind a kind of picture."""
    identity = np.arange(256, dtype=np.uint8)
    levels = identity[None].copy()
    if picture.colour:
        levels = np.zeros((3, 256), np.uint8)
        levels[:, :64] = colours().T
    return View(
        shrinking((picture.first_line, picture.last_line), picture.height, picture.width),
        identity[:64].copy() if picture.colour else greys(),
        levels,
        picture.two_frames,
    )


def colour_view() -> View:
    """Return the view whose one plane holds the number of the colour of every pixel."""
    return make_view(WHOLE_SCREEN)._replace(shades=np.arange(64, dtype=np.uint8))


@kernel
def keep_picture(canvas: Canvas, other: Canvas, view: View, stack: Array) -> None:
    """Put what is on the canvas behind the latest pictures and drop the oldest one."""
    planes = view.levels.shape[0]
    for plane in range(stack.shape[0] - planes):
        stack[plane] = stack[plane + planes]
    for plane in range(planes):
        out = stack[stack.shape[0] - planes + plane]
        shrink(canvas, other, view.levels[plane], view.shrinking, out)
