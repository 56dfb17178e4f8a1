"""Convolutions of small images as matrix products over windows that are laid out as rows.

Images are [rows, columns, channels]; so is what convolutions leave behind.
"""

from __future__ import annotations

import numpy as np

from longhaul.core.env import Array
from longhaul.core.native import kernel
from longhaul.learn.native import kernels as at
from longhaul.learn.native.kernels import (
    Arrays,
    address,
    bias_gradient,
    filled_up,
    inlined,
    part,
    places,
)
from longhaul.learn.native.tile import WIDTH, copy_sixteen, multiply

_PIXEL = np.float32(1.0 / 255.0)

Pictures = tuple[Array, Array]
"""The bytes of all samples, [N, pixels], and the numbers of those that are computed."""


@kernel
def _copy(target: Array, source: Array) -> None:
    for i in range(target.size):
        target[i] = source[i]


@kernel
def _add(target: Array, source: Array) -> None:
    for i in range(target.size):
        target[i] += source[i]


@kernel
def _load(pictures: Pictures, first: int, images: int, pixels: Array) -> None:
    """Write the bytes of some samples as numbers from 0 to 1."""
    stored, items = pictures
    size = stored.shape[1]
    for image in range(images):
        target = part(pixels, image * size, size)
        if first + image < items.size:
            source = stored[items[first + image]]
            for i in range(size):
                target[i] = np.float32(source[i]) * _PIXEL
        else:
            target[:] = at.ZERO


@inlined
def _columns(layer: Array, row: int, left: int) -> tuple[int, int]:
    """Return which columns of a window's line are within the image, from and to."""
    if row < 0 or row >= layer[at.LAYER_IMAGE_ROWS]:
        return 0, 0
    return max(0, -left), min(layer[at.LAYER_WINDOW], layer[at.LAYER_IMAGE_COLUMNS] - left)


@kernel
def _lay_out(layer: Array, source: Array, first: int, images: int, windows: Array) -> None:
    """Write each window of some images as a row; what rows are filled up with is zero.

    Lines are copied 16 numbers at a time. What that writes too much is written again by the next
    line, and at the end there is room for it.
    """
    size, channels, room = layer[at.LAYER_WINDOW], layer[at.LAYER_CHANNELS], layer[at.LAYER_INPUTS]
    line, offset = size * channels, 0
    for image in range(images):
        begin = first + image * layer[at.LAYER_SOURCE_ROW]
        for y in range(layer[at.LAYER_WINDOW_ROWS]):
            for x in range(layer[at.LAYER_WINDOW_COLUMNS]):
                left = x * layer[at.LAYER_STRIDE] - layer[at.LAYER_EDGE_COLUMNS]
                for i in range(size):
                    row = y * layer[at.LAYER_STRIDE] - layer[at.LAYER_EDGE_ROWS] + i
                    place = begin + (row * layer[at.LAYER_IMAGE_COLUMNS] + left) * channels
                    target = offset + i * line
                    begins, ends = _columns(layer, row, left)
                    if ends - begins == size:
                        for n in range(0, line, WIDTH):
                            copy_sixteen(address(windows, target + n), address(source, place + n))
                        continue
                    part(windows, target, line)[:] = at.ZERO
                    inside, skipped = (ends - begins) * channels, begins * channels
                    cells = part(windows, target + skipped, inside)
                    _copy(cells, part(source, place + skipped, inside))
                part(windows, offset + size * line, room - size * line)[:] = at.ZERO
                offset += room


@kernel
def _put_back(layer: Array, windows: Array, images: int, slopes: Array, first: int) -> None:
    """Add the gradient of each window to that of the images it was read from."""
    size, channels, room = layer[at.LAYER_WINDOW], layer[at.LAYER_CHANNELS], layer[at.LAYER_INPUTS]
    line, offset = size * channels, 0
    for image in range(images):
        begin = first + image * layer[at.LAYER_SOURCE_ROW]
        part(slopes, begin, layer[at.LAYER_SOURCE_ROW])[:] = at.ZERO
        for y in range(layer[at.LAYER_WINDOW_ROWS]):
            for x in range(layer[at.LAYER_WINDOW_COLUMNS]):
                left = x * layer[at.LAYER_STRIDE] - layer[at.LAYER_EDGE_COLUMNS]
                for i in range(size):
                    row = y * layer[at.LAYER_STRIDE] - layer[at.LAYER_EDGE_ROWS] + i
                    place = begin + (row * layer[at.LAYER_IMAGE_COLUMNS] + left) * channels
                    source = offset + i * line
                    begins, ends = _columns(layer, row, left)
                    inside, skipped = (ends - begins) * channels, begins * channels
                    cells = part(slopes, place + skipped, inside)
                    _add(cells, part(windows, source + skipped, inside))
                offset += room


@kernel
def _look(
    layer: Array, results: Array, room: Arrays, pictures: Pictures, first: int, images: int
) -> None:
    """Lay out the windows of some samples, from the observation or from another layer."""
    windows, pixels = room
    if layer[at.LAYER_READS_LAYER]:
        begin = layer[at.LAYER_SOURCE] + first * layer[at.LAYER_SOURCE_ROW]
        _lay_out(layer, results, begin, images, windows)
    else:
        _load(pictures, first, images, pixels)
        _lay_out(layer, pixels, layer[at.LAYER_SOURCE], images, windows)


@kernel
def convolve(
    layer: Array, weights: Array, results: Array, room: Arrays, pictures: Pictures, rows: int
) -> None:
    """Write what a convolution makes of the first rows, a multiple of 8, to its place."""
    before, after, each = layer[at.LAYER_INPUTS], layer[at.LAYER_OUTPUTS], places(layer)
    for first in range(0, rows, at.IMAGES):
        images = min(at.IMAGES, rows - first)
        _look(layer, results, room, pictures, first, images)
        multiply(
            (address(results, layer[at.LAYER_RESULT] + first * layer[at.LAYER_RESULT_ROW]), after),
            (address(room[0], 0), before, 1),
            (address(weights, layer[at.LAYER_WEIGHT]), after),
            (address(weights, layer[at.LAYER_BIAS]), 0),
            (images * each, after, before),
        )


@kernel
def convolution_gradient(
    layer: Array, flat: Arrays, work: Arrays, room: Arrays, pictures: Pictures, rows: int
) -> None:
    """Add the gradients of weight and bias, and write that of the image if a layer made it."""
    transposed, results, slopes, zeros = work
    before, after, each = layer[at.LAYER_INPUTS], layer[at.LAYER_OUTPUTS], places(layer)
    weight = (address(flat[1], layer[at.LAYER_WEIGHT]), after)
    windows = address(room[0], 0)
    for first in range(0, rows, at.IMAGES):
        images = min(at.IMAGES, rows - first)
        _look(layer, results, room, pictures, first, images)
        begin = layer[at.LAYER_RESULT] + first * layer[at.LAYER_RESULT_ROW]
        of_outputs = address(slopes, begin)
        size = (before, after, images * each)
        multiply(weight, (windows, 1, before), (of_outputs, after), weight, size)
        bias_gradient(layer, slopes, flat[1], begin, images * each)
        if layer[at.LAYER_READS_LAYER]:
            multiply(
                (windows, before),
                (of_outputs, after, 1),
                (address(transposed, layer[at.LAYER_WEIGHT]), before),
                (address(zeros, 0), 0),
                (filled_up(images * each), before, after),
            )
            source = layer[at.LAYER_SOURCE] + first * layer[at.LAYER_SOURCE_ROW]
            _put_back(layer, room[0], images, slopes, source)
