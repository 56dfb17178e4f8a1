"""The arithmetic of fully connected layers and AdamW on flat float32 arrays.

Sums run in a fixed order and no product is fused with a sum, except in matrix products, where
every one is. So the result does not depend on the processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

from longhaul.core.env import Array
from longhaul.core.native import integer, kernel
from longhaul.learn.native.tile import FLOAT_BYTES, multiply

ROWS = 128
"""Samples that go through the network at once: their activations stay in the second cache."""
IMAGES = 16
"""Images whose windows are laid out at once, a multiple of 8."""
(
    LAYER_INPUTS,  # rows of the padded weight
    LAYER_OUTPUTS,  # its columns
    LAYER_WEIGHT,  # where it begins among the weights
    LAYER_BIAS,
    LAYER_READS_LAYER,  # 0 reads the observation
    LAYER_SOURCE,  # where in the results, or in the pixels, it begins to read
    LAYER_SOURCE_ROW,  # how far apart two samples are there
    LAYER_RESULT,  # where in the results it writes
    LAYER_RESULT_ROW,
    LAYER_ACTIVATION,
    LAYER_WINDOW,  # height and width of a convolution's windows, 0 for all other layers
    LAYER_STRIDE,
    LAYER_EDGE_ROWS,  # what windows read beyond each edge of the image
    LAYER_EDGE_COLUMNS,
    LAYER_IMAGE_ROWS,  # of the image that is read
    LAYER_IMAGE_COLUMNS,
    LAYER_CHANNELS,
    LAYER_WINDOW_ROWS,  # windows below each other
    LAYER_WINDOW_COLUMNS,  # and side by side
) = range(19)
COLUMNS = 19
"""Columns of a table of layers."""
IS_TANH, IS_RELU = 1, 2
"""Activations; 0 marks a layer that ends the network."""
POLICY_LAYER, VALUE_LAYER, VALUE_COLUMN, LOG_STD, ACTIONS = range(5)
"""Places of a network's marks: which layers end it, and where the deviations are."""
NO_LOG_STD = -1
ROWS_TOGETHER = 8
"""What a number of rows is filled up to."""
NORM_LANES = 16

Arrays = tuple[Array, ...]
F = TypeVar("F", bound=Callable[..., Any])
Float = Any
"""A float32: native code keeps the width of numbers, which types of NumPy leave out."""

# tanh(x) = x P(x^2) / Q(x^2) for |x| <= 9, fitted by least squares whose weights follow the error;
# with the rounding of float32 at most 3.2e-7 off.
_FARTHEST = np.float32(9.0)
_P1, _P2 = np.float32(0.13381026685237885), np.float32(0.0034955888986587524)
_P3, _P4 = np.float32(2.060909173451364e-05), np.float32(1.3354671146714736e-08)
_Q1, _Q2 = np.float32(0.4671434164047241), np.float32(0.025876985862851143)
_Q3, _Q4 = np.float32(0.00032856359030120075), np.float32(7.776563393235847e-07)
ONE, ZERO = np.float32(1.0), np.float32(0.0)


def inlined(function: F) -> F:
    """Return native code that becomes part of every function that calls it.

    What is done for each sample must be: handing over arrays takes as long as the arithmetic.
    """
    compile_inner = cast(Any, numba.njit)(
        nogil=True,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        forceinline=True,
    )
    return cast(F, compile_inner(function))


@kernel
def _tanh(x: Float) -> Float:
    # Comparisons with NaN are false, so it stays.
    x = _FARTHEST if x > _FARTHEST else x
    x = -_FARTHEST if x < -_FARTHEST else x
    s = x * x
    p = (((_P4 * s + _P3) * s + _P2) * s + _P1) * s + ONE
    q = (((_Q4 * s + _Q3) * s + _Q2) * s + _Q1) * s + ONE
    return x * p / q


@inlined
def part(values: Array, first: int, size: int) -> Array:
    """Return some numbers of a flat array."""
    return values[first : first + size]


@kernel
def filled_up(rows: int) -> int:
    """Return the least number of rows, a multiple of 8, that has room for these."""
    return (rows + ROWS_TOGETHER - 1) // ROWS_TOGETHER * ROWS_TOGETHER


@kernel
def places(layer: Array) -> int:
    """Return how often a layer is applied to one sample."""
    windows: int = layer[LAYER_WINDOW_ROWS] * layer[LAYER_WINDOW_COLUMNS]
    return windows if layer[LAYER_WINDOW] else 1


@kernel
def activate(values: Array, kind: int) -> None:
    """Replace values [n] by their tanh, or by 0 where they are negative."""
    if kind == IS_TANH:
        for i in range(values.size):
            values[i] = _tanh(values[i])
    else:
        for i in range(values.size):
            values[i] = ZERO if values[i] < ZERO else values[i]


@kernel
def activation_gradient(grad: Array, result: Array, kind: int) -> None:
    """Multiply a gradient [n] with the slope of the activation that gave the result [n]."""
    if kind == IS_TANH:
        for i in range(grad.size):
            grad[i] *= ONE - result[i] * result[i]
    else:
        for i in range(grad.size):
            grad[i] = grad[i] if result[i] > ZERO else ZERO


@kernel
def layer_activate(layer: Array, results: Array, rows: int) -> None:
    """Activate what a layer wrote for the first rows."""
    width, row = layer[LAYER_OUTPUTS] * places(layer), layer[LAYER_RESULT_ROW]
    pieces, size = (1, rows * width) if width == row else (rows, width)
    for piece in range(pieces):
        first = layer[LAYER_RESULT] + piece * row
        activate(part(results, first, size), layer[LAYER_ACTIVATION])


@kernel
def layer_activation_gradient(layer: Array, results: Array, slopes: Array, rows: int) -> None:
    """Make the gradient of what a layer wrote that of what it activated."""
    width, row = layer[LAYER_OUTPUTS] * places(layer), layer[LAYER_RESULT_ROW]
    pieces, size = (1, rows * width) if width == row else (rows, width)
    for piece in range(pieces):
        first = layer[LAYER_RESULT] + piece * row
        grad, result = part(slopes, first, size), part(results, first, size)
        activation_gradient(grad, result, layer[LAYER_ACTIVATION])


@kernel
def transpose(layers: Array, weights: Array, transposed: Array) -> None:
    """Write every layer's weight [inputs, outputs] as [outputs, inputs] to the same place."""
    for layer in range(layers.shape[0]):
        inputs, outputs = layers[layer, LAYER_INPUTS], layers[layer, LAYER_OUTPUTS]
        first = layers[layer, LAYER_WEIGHT]
        for i in range(inputs):
            for o in range(outputs):
                transposed[first + o * inputs + i] = weights[first + i * outputs + o]


@kernel
def address(values: Array, place: int) -> int:
    """Return where a number of a flat array is."""
    return integer(values.ctypes.data) + FLOAT_BYTES * place


@kernel
def layer_forward(layer: Array, weights: Array, results: Array, rows: int) -> None:
    """Write x W + b of the first rows, a multiple of 8, to the layer's place in the results."""
    before, after = layer[LAYER_INPUTS], layer[LAYER_OUTPUTS]
    multiply(
        (address(results, layer[LAYER_RESULT]), layer[LAYER_RESULT_ROW]),
        (address(results, layer[LAYER_SOURCE]), layer[LAYER_SOURCE_ROW], 1),
        (address(weights, layer[LAYER_WEIGHT]), after),
        (address(weights, layer[LAYER_BIAS]), 0),
        (rows, after, before),
    )


@kernel
def bias_gradient(layer: Array, slopes: Array, gradient: Array, first: int, rows: int) -> None:
    """Add the gradient of a layer's bias, given those of outputs that begin at `first`."""
    after, row, bias = layer[LAYER_OUTPUTS], layer[LAYER_RESULT_ROW], layer[LAYER_BIAS]
    distance = after if layer[LAYER_WINDOW] else row
    total = part(gradient, bias, after)
    for i in range(rows):
        slope = part(slopes, first + i * distance, after)
        for o in range(after):
            total[o] += slope[o]


@kernel
def layer_weight_gradient(
    layer: Array, results: Array, slopes: Array, gradient: Array, rows: int
) -> None:
    """Add the gradients of weight and bias, given those of the layer's outputs in `slopes`."""
    before, after = layer[LAYER_INPUTS], layer[LAYER_OUTPUTS]
    weight = (address(gradient, layer[LAYER_WEIGHT]), after)
    multiply(
        weight,
        (address(results, layer[LAYER_SOURCE]), 1, layer[LAYER_SOURCE_ROW]),
        (address(slopes, layer[LAYER_RESULT]), layer[LAYER_RESULT_ROW]),
        weight,
        (before, after, rows),
    )
    bias_gradient(layer, slopes, gradient, layer[LAYER_RESULT], rows)


@kernel
def layer_input_gradient(
    layer: Array, transposed: Array, slopes: Array, zeros: Array, rows: int
) -> None:
    """Write the gradient of the layer's inputs to the place of the layer they come from."""
    before, after = layer[LAYER_INPUTS], layer[LAYER_OUTPUTS]
    multiply(
        (address(slopes, layer[LAYER_SOURCE]), layer[LAYER_SOURCE_ROW]),
        (address(slopes, layer[LAYER_RESULT]), layer[LAYER_RESULT_ROW], 1),
        (address(transposed, layer[LAYER_WEIGHT]), before),
        (address(zeros, 0), 0),
        (rows, before, after),
    )


@kernel
def norm(values: Array) -> float:
    """Return the Euclidean norm; the size is a multiple of the lanes."""
    lanes = np.zeros(NORM_LANES)
    for i in range(0, values.size, NORM_LANES):
        for lane in range(NORM_LANES):
            value = np.float64(values[i + lane])
            lanes[lane] += value * value
    total = 0.0
    for lane in range(NORM_LANES):
        total += lanes[lane]
    return math.sqrt(total)


@kernel
def adamw_step(flat: tuple[Array, ...], adam: tuple[float, ...], step: int, divisor: float) -> None:
    """Move the weights along the gradient, divided by `divisor`, as torch's fused kernel does.

        m = b1 m + (1 - b1) g        v = b2 v + (1 - b2) g^2
        w = w (1 - lr decay) - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + epsilon)

    `adam` holds lr, b1, b2, epsilon and decay; corrections are float64, the rest float32.
    """
    weights, gradient, mean, square = flat
    rate, beta1, beta2, epsilon, decay = adam
    keep = np.float32(1.0 - rate * decay)
    stride = np.float32(rate / (1.0 - beta1**step))
    root = np.float32(math.sqrt(1.0 - beta2**step))
    share1, share2 = np.float32(1.0 - beta1), np.float32(1.0 - beta2)
    kept2, small, part = np.float32(beta2), np.float32(epsilon), np.float32(divisor)
    for i in range(weights.size):
        g = gradient[i] / part
        mean[i] += share1 * (g - mean[i])
        square[i] = kept2 * square[i] + share2 * g * g
        weights[i] = weights[i] * keep - stride * mean[i] / (np.sqrt(square[i]) / root + small)
