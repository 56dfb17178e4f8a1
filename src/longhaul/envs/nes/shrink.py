"""Pictures made smaller by area: every pixel of the screen counts by how much of it is covered."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array
from longhaul.envs.nes.game import Canvas
from longhaul.envs.nes.layout import WIDTH
from longhaul.envs.nes.native import kernel


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
    # A picture in grey is drawn as it is shown.
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
