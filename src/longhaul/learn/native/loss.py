"""PPO's loss of a few samples and its gradient with respect to the network's outputs.

The formulas are those of `learn.ppo` and `nets.heads`, sample by sample.
"""

from __future__ import annotations

import math

import numpy as np

from longhaul.core.env import Array
from longhaul.learn.native.kernels import ONE, ZERO, Float, inlined

CLIP_RANGE, VF_COEF, ENT_COEF, CLIP_RANGE_VF, KL_LIMIT = range(5)
HYPER = 5
"""Places of a loss's weights and bounds, and how many there are."""
POLICY, VALUE, ENTROPY, KL, CLIPPED = range(5)
"""Places of the sums over samples that become metrics."""
SUMS = 5
OLD_LOG_PROB, ADVANTAGE, TARGET, OLD_VALUE = range(4)
FACTS = 4
"""Columns of the facts about each step."""
_FORBIDDEN = np.float32(-1e9)
"""As in `nets.heads`: the probability is zero and nothing is infinite."""
_HALF, _TWO = np.float32(0.5), np.float32(2.0)
_LOG_ROOT = np.float32(0.5 * math.log(2.0 * math.pi))


@inlined
def choice_probabilities(
    logits: Array, mask: Array, group: tuple[int, int], out: tuple[Array, Array]
) -> None:
    """Write log p and p of one sample's choice among the logits of a group.

    An empty mask allows all. Where nothing is allowed all are equally likely.
    """
    log_probs, probs = out
    first, end = group
    top = _FORBIDDEN
    for a in range(first, end):
        log_probs[a] = logits[a] if mask.size == 0 or mask[a] else _FORBIDDEN
        top = top if log_probs[a] <= top else log_probs[a]
    total = ZERO
    for a in range(first, end):
        log_probs[a] -= top
        probs[a] = math.exp(log_probs[a])
        total += probs[a]
    log_total = math.log(total)
    for a in range(first, end):
        log_probs[a] -= log_total
        probs[a] /= total


@inlined
def choices_forward(
    logits: Array, chosen: Array, groups: Array, mask: Array, out: tuple[Array, Array]
) -> tuple[Float, Float]:
    """Return log-probability and entropy of one sample's choices, and write log p and p.

    Choice g is among the logits groups[g] to groups[g + 1].
    """
    log_probs, probs = out
    log_prob, entropy = ZERO, ZERO
    for group in range(chosen.size):
        first, end = groups[group], groups[group + 1]
        choice_probabilities(logits, mask, (first, end), out)
        for a in range(first, end):
            entropy -= probs[a] * log_probs[a]
        log_prob += log_probs[first + chosen[group]]
    return log_prob, entropy


@inlined
def choices_backward(
    slopes: tuple[Float, Float], chosen: Array, groups: Array, mask: Array, out: tuple[Array, Array]
) -> None:
    """Replace p by the gradient of the logits, given log p and the loss's slopes.

    d log p_a / d z = [a] - p        d S / d z = -p (log p + S)
    """
    log_probs, grad = out
    of_log_prob, of_entropy = slopes
    for group in range(chosen.size):
        first, end = groups[group], groups[group + 1]
        entropy = ZERO
        for a in range(first, end):
            entropy -= grad[a] * log_probs[a]
        for a in range(first, end):
            grad[a] = -grad[a] * (of_log_prob + of_entropy * (log_probs[a] + entropy))
        grad[first + chosen[group]] += of_log_prob
        for a in range(first, end):
            if mask.size and not mask[a]:
                grad[a] = ZERO


@inlined
def gaussian_forward(mean: Array, action: Array, log_std: Array) -> tuple[Float, Float]:
    """Return log-density and entropy of one sample's continuous action."""
    log_prob, entropy = ZERO, ZERO
    for a in range(action.size):
        distance = (action[a] - mean[a]) * math.exp(-log_std[a])
        log_prob -= _HALF * distance * distance + (log_std[a] + _LOG_ROOT)
        entropy += log_std[a] + (_HALF + _LOG_ROOT)
    return log_prob, entropy


@inlined
def gaussian_backward(
    slopes: tuple[Float, Float],
    means: tuple[Array, Array],
    action: Array,
    spreads: tuple[Array, Array],
) -> None:
    """Write the gradient of the means and add that of the logarithms of deviations.

    With d = (a - mean) / std: d log p / d mean = d / std and d log p / d log std = d^2 - 1.
    """
    of_log_prob, of_entropy = slopes
    (mean, of_mean), (log_std, of_log_std) = means, spreads
    for a in range(action.size):
        inverse = math.exp(-log_std[a])
        distance = (action[a] - mean[a]) * inverse
        of_mean[a] = of_log_prob * distance * inverse
        of_log_std[a] += of_log_prob * (distance * distance - ONE) + of_entropy


@inlined
def policy_slope(log_prob: Float, facts: Array, hyper: Array, scale: Float, sums: Array) -> Float:
    """Return d loss / d log pi of one sample's clipped surrogate, and add to the sums."""
    epsilon, advantage = np.float32(hyper[CLIP_RANGE]), facts[ADVANTAGE]
    log_ratio = log_prob - facts[OLD_LOG_PROB]
    ratio: Float = math.exp(log_ratio)
    clipped = ratio
    if ratio > ONE + epsilon:
        clipped = ONE + epsilon
    elif ratio < ONE - epsilon:
        clipped = ONE - epsilon
    free, held = ratio * advantage, clipped * advantage
    # In this order of comparison a NaN stays in the gradient.
    slope = ZERO if held < free else -free * scale
    sums[POLICY] -= held if held < free else free
    sums[KL] += ratio - log_ratio - ONE
    sums[CLIPPED] += ratio != clipped
    return slope


@inlined
def value_slope(value: Float, facts: Array, hyper: Array, scale: Float, sums: Array) -> Float:
    """Return d loss / d V of one sample's value loss, clipped or not, and add to the sums."""
    bound, target = np.float32(hyper[CLIP_RANGE_VF]), facts[TARGET]
    felt, difference = ONE, value - target
    if bound > ZERO:
        move = value - facts[OLD_VALUE]
        held = -bound if move < -bound else (bound if move > bound else move)
        felt = ONE if held == move or move != move else ZERO
        difference = facts[OLD_VALUE] + held - target
    sums[VALUE] += difference * difference
    return felt * _TWO * np.float32(hyper[VF_COEF]) * scale * difference
