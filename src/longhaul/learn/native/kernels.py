"""The arithmetic of fully connected layers and AdamW on flat float32 arrays.

Sums run in a fixed order and no product is fused with a sum, except in matrix products, where
every one is. So the result does not depend on the processor.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from longhaul.core.env import Array
from longhaul.core.native import integer, kernel
from longhaul.learn.native.tile import FLOAT_BYTES, multiply

ROWS = 128
"""Samples that go through the network at once: their activations stay in the second cache."""
LAYER_INPUTS, LAYER_OUTPUTS, LAYER_WEIGHT, LAYER_BIAS, LAYER_SOURCE, LAYER_RESULT = range(6)
"""Columns of a table of layers: padded sizes, and where things begin in their arrays."""
FROM_INPUTS = -1
"""The source of a layer that reads the observation."""
NORM_LANES = 16

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


@kernel
def _tanh(x: Float) -> Float:
    # Comparisons with NaN are false, so it stays.
    x = _FARTHEST if x > _FARTHEST else x
    x = -_FARTHEST if x < -_FARTHEST else x
    s = x * x
    p = (((_P4 * s + _P3) * s + _P2) * s + _P1) * s + ONE
    q = (((_Q4 * s + _Q3) * s + _Q2) * s + _Q1) * s + ONE
    return x * p / q


@kernel
def activate(values: Array, is_tanh: bool) -> None:  # noqa: FBT001 - native code has no keywords
    """Replace values [n] by their tanh, or by 0 where they are negative."""
    if is_tanh:
        for i in range(values.size):
            values[i] = _tanh(values[i])
    else:
        for i in range(values.size):
            values[i] = ZERO if values[i] < ZERO else values[i]


@kernel
def activation_gradient(grad: Array, result: Array, is_tanh: bool) -> None:  # noqa: FBT001
    """Multiply a gradient [n] with the slope of the activation that gave the result [n]."""
    if is_tanh:
        for i in range(grad.size):
            grad[i] *= ONE - result[i] * result[i]
    else:
        for i in range(grad.size):
            grad[i] = grad[i] if result[i] > ZERO else ZERO


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
def _address(values: Array, place: int) -> int:
    return integer(values.ctypes.data) + FLOAT_BYTES * place


@kernel
def layer_forward(layer: Array, weights: Array, inputs: Array, results: Array, rows: int) -> None:
    """Write x W + b of the first rows, a multiple of 8, to the layer's place in the results."""
    before, after, source = layer[LAYER_INPUTS], layer[LAYER_OUTPUTS], layer[LAYER_SOURCE]
    x = _address(inputs, 0) if source == FROM_INPUTS else _address(results, source)
    multiply(
        (_address(results, layer[LAYER_RESULT]), after),
        (x, before, 1),
        (_address(weights, layer[LAYER_WEIGHT]), after),
        (_address(weights, layer[LAYER_BIAS]), 0),
        (rows, after, before),
    )


@kernel
def layer_weight_gradient(
    layer: Array, inputs: Array, results: Array, slopes: Array, gradient: Array, rows: int
) -> None:
    """Add the gradients of weight and bias, given those of the layer's outputs in `slopes`."""
    before, after, source = layer[LAYER_INPUTS], layer[LAYER_OUTPUTS], layer[LAYER_SOURCE]
    x = _address(inputs, 0) if source == FROM_INPUTS else _address(results, source)
    weight = (_address(gradient, layer[LAYER_WEIGHT]), after)
    of_outputs = (_address(slopes, layer[LAYER_RESULT]), after)
    multiply(weight, (x, 1, before), of_outputs, weight, (before, after, rows))
    place, bias = layer[LAYER_RESULT], layer[LAYER_BIAS]
    for i in range(rows):
        for o in range(after):
            gradient[bias + o] += slopes[place + i * after + o]


@kernel
def layer_input_gradient(
    layer: Array, transposed: Array, slopes: Array, zeros: Array, rows: int
) -> None:
    """Write the gradient of the layer's inputs to the place of the layer they come from."""
    before, after = layer[LAYER_INPUTS], layer[LAYER_OUTPUTS]
    multiply(
        (_address(slopes, layer[LAYER_SOURCE]), before),
        (_address(slopes, layer[LAYER_RESULT]), after, 1),
        (_address(transposed, layer[LAYER_WEIGHT]), before),
        (_address(zeros, 0), 0),
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
