"""The optimizer steps of PPO's minibatches as one native call."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from longhaul.core.env import Array
from longhaul.core.native import entry, kernel, kernel_stamp
from longhaul.learn.native.kernels import (
    FROM_INPUTS,
    LAYER_INPUTS,
    LAYER_OUTPUTS,
    LAYER_RESULT,
    LAYER_SOURCE,
    ROWS,
    ZERO,
    Float,
    activate,
    activation_gradient,
    adamw_step,
    layer_forward,
    layer_input_gradient,
    layer_weight_gradient,
    norm,
    transpose,
)
from longhaul.learn.native.loss import (
    ENT_COEF,
    ENTROPY,
    KL,
    KL_LIMIT,
    choices_backward,
    choices_forward,
    gaussian_backward,
    gaussian_forward,
    policy_slope,
    value_slope,
)

POLICY_LAYER, VALUE_LAYER, VALUE_COLUMN, LOG_STD, ACTIONS, IS_TANH = range(6)
"""Places of a network's marks: which layers end it, where the deviations are, its activation."""
NO_LOG_STD = -1
ALL_LEARNED, NOT_FINITE, MOVED_TOO_FAR = range(3)
"""Why the minibatches ended."""
ROWS_TOGETHER = 8
"""What a number of rows is filled up to."""

Arrays = tuple[Array, ...]
State = tuple[Arrays, Arrays, Arrays, Arrays]
"""The network's tables, its flat arrays, room to work in, and a rollout's samples."""
Optimizer = tuple[tuple[float, ...], int, float]
"""AdamW's numbers, its steps so far, and the norm that gradients are clipped to."""


@kernel
def _slice(values: Array, first: int, size: int) -> Array:
    return values[first : first + size]


@kernel
def _forward(network: Arrays, flat: Arrays, work: Arrays, rows: int) -> None:
    layers, ends, _, marks = network
    weights, inputs, results = flat[0], work[1], work[2]
    for index in range(layers.shape[0]):
        layer = layers[index]
        layer_forward(layer, weights, inputs, results, rows)
        if not ends[index]:
            size = rows * layer[LAYER_OUTPUTS]
            activate(_slice(results, layer[LAYER_RESULT], size), marks[IS_TANH] != 0)


@kernel
def _backward(network: Arrays, flat: Arrays, work: Arrays, rows: int, padded: int) -> None:
    layers, _, _, marks = network
    gradient = flat[1]
    transposed, inputs, results, slopes, zeros = work[0], work[1], work[2], work[3], work[4]
    for index in range(layers.shape[0] - 1, -1, -1):
        layer = layers[index]
        layer_weight_gradient(layer, inputs, results, slopes, gradient, rows)
        source = layer[LAYER_SOURCE]
        if source != FROM_INPUTS:
            layer_input_gradient(layer, transposed, slopes, zeros, padded)
            size = padded * layer[LAYER_INPUTS]
            of_result, result = _slice(slopes, source, size), _slice(results, source, size)
            activation_gradient(of_result, result, marks[IS_TANH] != 0)


@kernel
def _gather(items: Array, data: Arrays, inputs: Array, padded: int) -> None:
    observed = data[0]
    for row in range(items.size):
        for column in range(observed.shape[1]):
            inputs[row, column] = observed[items[row], column]
    for row in range(items.size, padded):
        inputs[row] = ZERO


@kernel
def _sample(state: State, hyper: Array, scale: Float, sums: Array, row: int, item: int) -> None:
    """Write the gradient of the network's outputs for one sample."""
    (layers, _, groups, marks), flat, work, (_, chosen, action, mask, facts) = state
    results, slopes, log_probs = work[2], work[3], work[5]
    last, actions = layers[marks[POLICY_LAYER]], marks[ACTIONS]
    place = last[LAYER_RESULT] + row * last[LAYER_OUTPUTS]
    outputs, of_outputs = _slice(results, place, actions), _slice(slopes, place, actions)
    of_entropy = -np.float32(hyper[ENT_COEF]) * scale
    if marks[LOG_STD] == NO_LOG_STD:
        allowed = mask[item if mask.shape[1] else 0]
        out = (log_probs, of_outputs)
        log_prob, entropy = choices_forward(outputs, chosen[item], groups, allowed, out)
        slope = policy_slope(log_prob, facts[item], hyper, scale, sums)
        choices_backward((slope, of_entropy), chosen[item], groups, allowed, out)
    else:
        log_std = _slice(flat[0], marks[LOG_STD], actions)
        log_prob, entropy = gaussian_forward(outputs, action[item], log_std)
        slope = policy_slope(log_prob, facts[item], hyper, scale, sums)
        spreads = (log_std, _slice(flat[1], marks[LOG_STD], actions))
        gaussian_backward((slope, of_entropy), (outputs, of_outputs), action[item], spreads)
    sums[ENTROPY] -= entropy
    last = layers[marks[VALUE_LAYER]]
    place = last[LAYER_RESULT] + row * last[LAYER_OUTPUTS] + marks[VALUE_COLUMN]
    slopes[place] = value_slope(results[place], facts[item], hyper, scale, sums)


@kernel
def _add_gradient(state: State, hyper: Array, scale: Float, sums: Array, items: Array) -> None:
    """Add the gradient of the loss of these samples, times `scale`."""
    network, flat, work, data = state
    layers, ends = network[0], network[1]
    inputs, slopes = work[1], work[3]
    for first in range(0, items.size, ROWS):
        block = items[first : first + ROWS]
        rows = block.size
        padded = (rows + ROWS_TOGETHER - 1) // ROWS_TOGETHER * ROWS_TOGETHER
        _gather(block, data, inputs, padded)
        _forward(network, flat, work, padded)
        for index in range(layers.shape[0]):
            if ends[index]:
                size = padded * layers[index, LAYER_OUTPUTS]
                _slice(slopes, layers[index, LAYER_RESULT], size)[:] = ZERO
        for row in range(rows):
            _sample(state, hyper, scale, sums, row, block[row])
        _backward(network, flat, work, rows, padded)


@kernel
def _mean_deviation(flat: Arrays, marks: Array) -> Float:
    total = 0.0
    for a in range(marks[ACTIONS]):
        total += math.exp(flat[0][marks[LOG_STD] + a])
    return total / marks[ACTIONS]


def _compile(stamp: int) -> Any:
    @entry
    def learn(
        state: State, plan: Arrays, hyper: Array, optimizer: Optimizer, found: Arrays
    ) -> tuple[int, int]:
        _ = stamp
        network, flat, work, _ = state
        layers, marks = network[0], network[3]
        order, bounds, is_last, scales = plan
        sums, norms, deviations = found
        adam, step, max_norm = optimizer
        weights, gradient = flat[0], flat[1]
        learned = 0
        begins = True
        for index in range(bounds.size - 1):
            if begins:
                gradient[:] = ZERO
                transpose(layers, weights, work[0])
            items = order[bounds[index] : bounds[index + 1]]
            if marks[LOG_STD] != NO_LOG_STD:
                deviations[index] = _mean_deviation(flat, marks)
            _add_gradient(state, hyper, np.float32(scales[index]), sums[index], items)
            if hyper[KL_LIMIT] > 0.0 and sums[index, KL] / items.size > hyper[KL_LIMIT]:
                return index, MOVED_TOO_FAR
            begins = is_last[index] != 0
            if begins:
                length = norm(gradient)
                if not math.isfinite(length):
                    return learned, NOT_FINITE
                norms[index] = length
                step += 1
                divisor = length / max_norm if 0.0 < max_norm < length else 1.0
                adamw_step(flat, adam, step, divisor)
                learned = index + 1
        return learned, ALL_LEARNED

    return learn


_learn = _compile(kernel_stamp(sorted(Path(__file__).parent.glob("*.py"))))


def learn_minibatches(
    state: State, plan: Arrays, hyper: Array, optimizer: Optimizer, found: Arrays
) -> tuple[int, int]:
    """Learn from minibatches one after another; return how many, and why they ended.

    A step that is not finite is not taken and the minibatches since the last one do not count;
    one that moved the policy too far does not count either, but has its sums.
    """
    learned, reason = _learn(state, plan, hyper, optimizer, found)
    return learned, reason
