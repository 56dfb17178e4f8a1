"""Pictures in a terminal: two pixels per character, an upper one and a lower one."""

from __future__ import annotations

import numpy as np
from rich.color import Color
from rich.segment import Segment, Segments
from rich.style import Style

from longhaul.report.film import Picture

UPPER_HALF = "▀"


def fit(picture: Picture, *, columns: int, lines: int) -> Picture:
    """Return the picture made smaller by averaging, to at most so many columns and half lines."""
    height, width = picture.shape[:2]
    factor = max(width / columns, height / (2 * lines), 1.0)
    rows = _edges(height, max(round(height / factor) // 2 * 2, 2))
    across = _edges(width, max(round(width / factor), 1))
    sums = np.add.reduceat(
        np.add.reduceat(picture.astype(np.float32), rows[:-1], 0), across[:-1], 1
    )
    areas = np.diff(rows)[:, None, None] * np.diff(across)[None, :, None]
    small: Picture = (sums / areas + 0.5).astype(np.uint8)
    return small


def _edges(length: int, parts: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    edges: np.ndarray[tuple[int], np.dtype[np.int64]] = np.linspace(
        0, length, min(parts, length) + 1
    ).astype(np.int64)
    return edges


def half_blocks(picture: Picture) -> Segments:
    """Return an even number of pixel rows as lines of coloured half blocks."""
    segments = []
    for upper, lower in zip(picture[::2], picture[1::2], strict=True):
        for above, below in zip(upper.tolist(), lower.tolist(), strict=True):
            style = Style(color=Color.from_rgb(*above), bgcolor=Color.from_rgb(*below))
            segments.append(Segment(UPPER_HALF, style))
        segments.append(Segment.line())
    return Segments(segments)
