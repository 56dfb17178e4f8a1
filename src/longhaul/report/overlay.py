"""The panel beside a film's picture: actions, values and rewards of the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from longhaul.report.film import MISSING, FilmError, Picture

WIDTH = 300
MARGIN = 18
LEAST_HEIGHT = 480
TITLE_SIZE, FACT_SIZE = 24, 20
"""Step, return and value can be read in a film that is shown 500 pixels wide."""
PAPER, INK, FAINT = (16, 22, 32), (232, 236, 241), (150, 160, 174)
TRACK, BAR, LINE = (44, 54, 70), (86, 180, 233), (240, 190, 80)


@dataclass(frozen=True, slots=True)
class Bar:
    """A share between 0 and 1 with its name and value."""

    name: str
    share: float
    figure: str


@dataclass(frozen=True, slots=True)
class Caption:
    """The content of the panel for one frame."""

    facts: tuple[tuple[str, str], ...] = ()
    bars: tuple[tuple[str, tuple[Bar, ...]], ...] = ()
    """Groups of bars, each with a heading."""
    curves: tuple[tuple[str, Sequence[float]], ...] = ()
    """Lines over the episode so far, each with a heading."""
    notes: tuple[tuple[str, str], ...] = ()
    """What stays the same over the episode, at the foot."""


@dataclass(frozen=True, slots=True)
class Heading:
    """What the film shows."""

    title: str
    lines: tuple[str, ...] = ()
    length: int = 0
    """Steps of the episode, which set the width of its curves."""


@dataclass(slots=True)
class Overlay:
    """Joins pictures and captions to frames of one size."""

    heading: Heading
    _image: Any = field(init=False)
    _draw: Any = field(init=False)
    _type: Type = field(init=False)
    _paper: Picture | None = field(init=False, default=None)
    _headed: tuple[Any, int] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        try:
            from PIL import Image, ImageDraw
        except ModuleNotFoundError:
            raise FilmError(MISSING) from None
        self._image = Image
        self._draw = ImageDraw
        self._type = Type()

    def frame(self, picture: Picture, caption: Caption) -> Picture:
        """Return the picture, enlarged if it is small, with the panel at its right."""
        picture = enlarge(picture)
        height = max(picture.shape[0], LEAST_HEIGHT)
        width = picture.shape[1]
        joined = self._empty(height, width)
        top = (height - picture.shape[0]) // 2
        joined[top : top + picture.shape[0], :width] = picture
        joined[:, width:] = self._panel(height, caption)
        return joined

    def _empty(self, height: int, width: int) -> Picture:
        """Return the empty panel; copied, because painting it is slower."""
        if self._paper is None or self._paper.shape[:2] != (height, width + WIDTH):
            self._paper = np.empty((height, width + WIDTH, 3), np.uint8)
            self._paper[:] = PAPER
        return self._paper.copy()

    def _panel(self, height: int, caption: Caption) -> Picture:
        if self._headed is None or self._headed[0].height != height:
            panel = self._image.new("RGB", (WIDTH, height), PAPER)
            pen = _Pen(self._draw.Draw(panel), self._type, height)
            pen.text(self.heading.title, size=TITLE_SIZE, color=INK, after=34)
            for line in self.heading.lines:
                pen.text(line, size=13, color=FAINT, after=19)
            self._headed = (panel, pen.top + 8)
        base, top = self._headed
        panel = base.copy()
        pen = _Pen(self._draw.Draw(panel), self._type, height, top=top)
        for name, figure in caption.facts:
            pen.pair(name, figure)
        for title, bars in caption.bars:
            pen.bars(title, bars)
        for title, values in caption.curves:
            pen.curve(title, values, self.heading.length)
        if caption.notes:
            pen.skip(8)
            pen.text("settings in training", size=13, color=FAINT, after=19)
        for name, figure in caption.notes:
            pen.pair(name, figure, faint=True)
        drawn: Picture = np.asarray(panel, np.uint8)
        return drawn


class Type:
    """Text as masks, cached: most texts repeat from frame to frame, and rendering is slow."""

    def __init__(self) -> None:
        from PIL import Image, ImageDraw, ImageFont

        self._image: Any = Image
        self._draw: Any = ImageDraw
        self._fonts: dict[int, Any] = {
            size: ImageFont.load_default(size=size) for size in (TITLE_SIZE, FACT_SIZE, 13)
        }
        self._masks: dict[tuple[str, int], Any] = {}
        self._widths: dict[tuple[str, int], float] = {}

    def width(self, words: str, size: int) -> float:
        """Return the width of the text in pixels."""
        key = (words, size)
        if key not in self._widths:
            self._widths[key] = float(self._fonts[size].getlength(words))
        return self._widths[key]

    def mask(self, words: str, size: int) -> Any:
        """Return the text as an image of pixel coverage."""
        key = (words, size)
        if key not in self._masks:
            if len(self._masks) > _MOST_WORDS:
                self._masks.clear()
            mask = self._image.new("L", (int(self.width(words, size)) + 2, size + 8))
            self._draw.Draw(mask).text((0, 0), words, 255, self._fonts[size])
            self._masks[key] = mask
        return self._masks[key]


_MOST_WORDS = 4000


class _Pen:
    """Writes from the top down, and skips what does not fit."""

    def __init__(self, draw: Any, type_: Type, height: int, *, top: int = MARGIN) -> None:
        self._draw = draw
        self._type = type_
        self.top = top
        self._bottom = height - MARGIN // 2

    def skip(self, pixels: int) -> None:
        self.top += pixels

    def _fits(self, pixels: int) -> bool:
        return self.top + pixels <= self._bottom

    def text(self, words: str, *, size: int, color: tuple[int, int, int], after: int) -> None:
        if self._fits(size):
            room = WIDTH - 2 * MARGIN
            self._write(MARGIN, self._cut(words, size, room), size, color)
            self.skip(after)

    def pair(self, name: str, figure: str, *, faint: bool = False) -> None:
        size = 13 if faint else FACT_SIZE
        if not self._fits(size + 2):
            return
        right = WIDTH - MARGIN
        width = self._width(figure, size)
        room = right - width - MARGIN - 8
        self._write(MARGIN, self._cut(name, size, room), size, FAINT)
        self._write(right - width, figure, size, FAINT if faint else INK)
        self.skip(18 if faint else FACT_SIZE + 6)

    def bars(self, title: str, bars: Sequence[Bar]) -> None:
        if not bars or not self._fits(24 + 19 * len(bars)):
            return
        self.skip(8)
        if title:
            self.text(title, size=13, color=FAINT, after=19)
        left, right = MARGIN + 92, WIDTH - MARGIN - 52
        for bar in bars:
            top = self.top
            self._write(MARGIN, self._cut(bar.name, 13, left - MARGIN - 6), 13, INK)
            self._draw.rounded_rectangle((left, top + 4, right, top + 13), 4, TRACK)
            share = min(max(bar.share, 0.0), 1.0)
            if share > 0.004:
                end = left + max(share * (right - left), 4)
                self._draw.rounded_rectangle((left, top + 4, end, top + 13), 4, BAR)
            width = self._width(bar.figure, 13)
            self._write(WIDTH - MARGIN - width, bar.figure, 13, FAINT)
            self.skip(19)

    def curve(self, title: str, values: Sequence[float], length: int) -> None:
        tall = 56
        if not self._fits(tall + 34):
            return
        self.skip(8)
        self.text(title, size=13, color=FAINT, after=19)
        left, right = MARGIN, WIDTH - MARGIN
        top, bottom = self.top, self.top + tall
        self._draw.rounded_rectangle((left, top, right, bottom), 4, (24, 32, 45))
        low, high = min(values), max(values)
        span = (high - low) or 1.0
        across = max(length, len(values) - 1, 1)
        points = [
            (
                left + 4 + (right - left - 8) * step / across,
                bottom - 5 - (tall - 10) * (value - low) / span,
            )
            for step, value in enumerate(values)
        ]
        if len(points) > 1:
            self._draw.line(points, LINE, 2)
        x, y = points[-1]
        self._draw.ellipse((x - 3, y - 3, x + 3, y + 3), LINE)
        self.skip(tall + 6)

    def _write(self, left: float, words: str, size: int, color: tuple[int, int, int]) -> None:
        self._draw.bitmap((round(left), self.top), self._type.mask(words, size), color)

    def _width(self, words: str, size: int) -> float:
        return self._type.width(words, size)

    def _cut(self, words: str, size: int, room: float) -> str:
        """Return as much of the text as fits."""
        if self._width(words, size) <= room:
            return words
        while words and self._width(words + "…", size) > room:
            words = words[:-1]
        return words + "…"


def enlarge(picture: Picture) -> Picture:
    """Return a small picture with each pixel repeated, so it is tall enough to see."""
    factor = max(LEAST_HEIGHT // picture.shape[0], 1)
    return picture if factor == 1 else picture.repeat(factor, axis=0).repeat(factor, axis=1)
