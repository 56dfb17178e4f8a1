"""The optimizer steps of PPO's minibatches as one native call."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import numpy as np

from longhaul.core.env import Array
from longhaul.core.labor import Labor, Link, bind
from longhaul.core.native import fetch, kernel, kernel_stamp
from longhaul.learn.native import kernels as at
from longhaul.learn.native.convolutions import Pictures, convolution_gradient, convolve
from longhaul.learn.native.kernels import (
    Arrays,
    Float,
    adamw_step,
    filled_up,
    inlined,
    layer_activate,
    layer_activation_gradient,
    layer_forward,
    layer_input_gradient,
    layer_weight_gradient,
    norm,
    part,
    transpose,
)
from longhaul.learn.native.loss import (
    ENT_COEF,
    ENTROPY,
    FACTS,
    HYPER,
    KL,
    KL_LIMIT,
    SUMS,
    choices_backward,
    choices_forward,
    gaussian_backward,
    gaussian_forward,
    policy_slope,
    value_slope,
)
from longhaul.learn.native.network import smallest_network
from longhaul.learn.native.tile import WIDTH

ALL_LEARNED, NOT_FINITE, MOVED_TOO_FAR = range(3)
"""Why the minibatches ended."""

State = tuple[Arrays, Arrays, Arrays, Arrays]
"""The network's tables, its flat arrays, room to work in, and a rollout's samples."""
Optimizer = tuple[tuple[float, ...], int, float]
"""AdamW's numbers, its steps so far, and the norm that gradients are clipped to."""


@kernel
def forward(network: Arrays, weights: Array, work: Arrays, pictures: Pictures, rows: int) -> None:
    """Write what all layers make of the first rows, a multiple of 8, to their places."""
    layers, results = network[0], work[1]
    for index in range(layers.shape[0]):
        layer = layers[index]
        if layer[at.LAYER_WINDOW]:
            convolve(layer, weights, results, (work[5], work[6]), pictures, rows)
        else:
            layer_forward(layer, weights, results, rows)
        if layer[at.LAYER_ACTIVATION]:
            layer_activate(layer, results, rows)


@kernel
def _backward(network: Arrays, flat: Arrays, work: Arrays, pictures: Pictures, rows: int) -> None:
    layers, padded = network[0], filled_up(rows)
    transposed, results, slopes, zeros, _, windows, pixels, _, _ = work
    for index in range(layers.shape[0] - 1, -1, -1):
        layer = layers[index]
        if layer[at.LAYER_ACTIVATION]:
            layer_activation_gradient(layer, results, slopes, padded)
        if layer[at.LAYER_WINDOW]:
            room = (transposed, results, slopes, zeros)
            convolution_gradient(layer, flat, room, (windows, pixels), pictures, rows)
            continue
        layer_weight_gradient(layer, results, slopes, flat[1], rows)
        if layer[at.LAYER_READS_LAYER]:
            layer_input_gradient(layer, transposed, slopes, zeros, padded)


@kernel
def _gather(items: Array, data: Arrays, work: Arrays) -> None:
    """Write the vectors of some samples, filled up with zeros, to the beginning of the results.

    Their choices and facts are gathered too: reading them one by one would wait for each.
    """
    observed, _, chosen, _, _, facts = data
    results, own_facts, own_chosen = work[1], work[7], work[8]
    for sample in range(items.size):
        for column in range(FACTS):
            own_facts[sample, column] = facts[items[sample], column]
        for column in range(chosen.shape[1]):
            own_chosen[sample, column] = chosen[items[sample], column]
    count = observed.shape[1]
    row = (count + WIDTH - 1) // WIDTH * WIDTH
    for sample in range(items.size):
        inputs = part(results, sample * row, row)
        for column in range(count):
            inputs[column] = observed[items[sample], column]
    part(results, items.size * row, (filled_up(items.size) - items.size) * row)[:] = at.ZERO


@inlined
def _sample(state: State, hyper: Array, scale: Float, sums: Array, row: int, item: int) -> None:
    """Write the gradient of the network's outputs for one sample."""
    (layers, groups, marks), flat, work, (_, _, _, action, mask, _) = state
    results, slopes, log_probs = work[1], work[2], work[4]
    facts, chosen = work[7][row], work[8][row]
    last, actions = layers[marks[at.POLICY_LAYER]], marks[at.ACTIONS]
    place = last[at.LAYER_RESULT] + row * last[at.LAYER_RESULT_ROW]
    outputs, of_outputs = part(results, place, actions), part(slopes, place, actions)
    of_entropy = -np.float32(hyper[ENT_COEF]) * scale
    if marks[at.LOG_STD] == at.NO_LOG_STD:
        allowed = mask[item if mask.shape[1] else 0]
        out = (log_probs, of_outputs)
        log_prob, entropy = choices_forward(outputs, chosen, groups, allowed, out)
        slope = policy_slope(log_prob, facts, hyper, scale, sums)
        choices_backward((slope, of_entropy), chosen, groups, allowed, out)
    else:
        log_std = part(flat[0], marks[at.LOG_STD], actions)
        log_prob, entropy = gaussian_forward(outputs, action[item], log_std)
        slope = policy_slope(log_prob, facts, hyper, scale, sums)
        spreads = (log_std, part(flat[1], marks[at.LOG_STD], actions))
        gaussian_backward((slope, of_entropy), (outputs, of_outputs), action[item], spreads)
    sums[ENTROPY] -= entropy
    last = layers[marks[at.VALUE_LAYER]]
    place = last[at.LAYER_RESULT] + row * last[at.LAYER_RESULT_ROW] + marks[at.VALUE_COLUMN]
    slopes[place] = value_slope(results[place], facts, hyper, scale, sums)


@inlined
def _add_gradient(state: State, hyper: Array, scale: Float, sums: Array, items: Array) -> None:
    """Add the gradient of the loss of these samples, times `scale`."""
    network, flat, work, data = state
    layers, slopes = network[0], work[2]
    for first in range(0, items.size, at.ROWS):
        block = items[first : first + at.ROWS]
        padded, pictures = filled_up(block.size), (data[1], block)
        _gather(block, data, work)
        forward(network, flat[0], work, pictures, padded)
        for index in range(layers.shape[0]):
            layer = layers[index]
            if not layer[at.LAYER_ACTIVATION]:
                size = padded * layer[at.LAYER_OUTPUTS]
                part(slopes, layer[at.LAYER_RESULT], size)[:] = at.ZERO
        for row in range(block.size):
            _sample(state, hyper, scale, sums, row, block[row])
        _backward(network, flat, work, pictures, block.size)


@kernel
def _mean_deviation(flat: Arrays, marks: Array) -> Float:
    total = 0.0
    for a in range(marks[at.ACTIONS]):
        total += math.exp(flat[0][marks[at.LOG_STD] + a])
    return total / marks[at.ACTIONS]


def _compile(stamp: int) -> Labor:
    def learn(pointer: Any, _index: int, _member: int) -> int:
        """Learn from minibatches; return why they ended, and note how many were learned from."""
        _ = stamp
        state, plan, hyper, optimizer, found = fetch(pointer)
        network, flat, work, _ = state
        layers, marks = network[0], network[2]
        order, bounds, is_last, scales = plan
        sums, norms, deviations, learned = found
        adam, step, max_norm = optimizer
        weights, gradient = flat[0], flat[1]
        begins = True
        for index in range(bounds.size - 1):
            if begins:
                gradient[:] = at.ZERO
                transpose(layers, weights, work[0])
            items = part(order, bounds[index], bounds[index + 1] - bounds[index])
            if marks[at.LOG_STD] != at.NO_LOG_STD:
                deviations[index] = _mean_deviation(flat, marks)
            _add_gradient(state, hyper, np.float32(scales[index]), sums[index], items)
            if hyper[KL_LIMIT] > 0.0 and sums[index, KL] / items.size > hyper[KL_LIMIT]:
                learned[0] = index
                return MOVED_TOO_FAR
            begins = is_last[index] != 0
            if begins:
                length = norm(gradient)
                if not math.isfinite(length):
                    return NOT_FINITE
                norms[index] = length
                step += 1
                divisor = length / max_norm if 0.0 < max_norm < length else 1.0
                adamw_step(flat, adam, step, divisor)
                learned[0] = index + 1
        return ALL_LEARNED

    return learn


_learn = _compile(kernel_stamp(sorted(Path(__file__).parent.glob("*.py"))))


@functools.cache
def compiled() -> Link:
    """Return the native code, compiled unless this machine has kept it, with nothing to learn."""
    network = smallest_network()
    samples = (
        np.zeros((0, 1), np.float32),
        np.zeros((0, 0), np.uint8),
        np.zeros((0, 1), np.int64),
        np.zeros((0, 0), np.float32),
        np.zeros((1, 0), bool),
        np.zeros((0, FACTS), np.float32),
    )
    plan = (np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0, bool), np.zeros(0))
    found = (np.zeros((0, SUMS)), np.zeros(0), np.zeros(0), np.zeros(1, np.int64))
    state = (network.network, network.flat, network.work, samples)
    return bind(_learn, (state, plan, np.zeros(HYPER), ((1.0,) * 5, 0, 1.0), found))


def learn_minibatches(
    state: State, plan: Arrays, hyper: Array, optimizer: Optimizer, sums: Arrays
) -> tuple[int, int]:
    """Learn from minibatches one after another; return how many, and why they ended.

    A step that is not finite is not taken and the minibatches since the last one do not count;
    one that moved the policy too far does not count either, but has its sums.
    """
    learned = np.zeros(1, np.int64)
    # Arrays of a labor are not counted by their users, which would take longer than the loss.
    link = compiled().with_arguments((state, plan, hyper, optimizer, (*sums, learned)))
    reason = link.caller()(0, 0)
    return int(learned[0]), reason
