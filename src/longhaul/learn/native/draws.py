"""Random numbers as a function of their place (Philox4x32-10 of Salmon et al. 2011).

Number i of step t is word i mod 4 of Philox with the counter (i / 4, t), so it depends neither on
what was drawn before nor on how many numbers are drawn at once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from longhaul.core.env import Array
from longhaul.core.native import kernel
from longhaul.learn.native.kernels import ONE, ZERO, Float, inlined

WORDS = 4
"""Numbers of one counter."""
SPARE = 2 * WORDS
"""What an array needs beside the numbers asked for, because counters are not split."""
_ROUNDS = 10
_FACTOR_0, _FACTOR_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEP_0, _KEY_STEP_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _HALF, _DROPPED = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(8)
_UNIT = np.float32(2.0**-24)
_TWICE, _TURN = np.float32(-2.0), np.float32(2.0 * math.pi)

Word = Any
"""A uint64 below 2**32: native code keeps the width of numbers, which types of NumPy leave out."""
Words = tuple[Word, Word, Word, Word]


@kernel
def philox(counter: Words, key: tuple[Word, Word]) -> Words:
    """Return four random words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        p0, p1 = _FACTOR_0 * c0, _FACTOR_1 * c2
        c0, c2 = (p1 >> _HALF) ^ c1 ^ k0, (p0 >> _HALF) ^ c3 ^ k1
        c1, c3 = p1 & _LOW, p0 & _LOW
        k0, k1 = (k0 + _KEY_STEP_0) & _LOW, (k1 + _KEY_STEP_1) & _LOW
    return c0, c1, c2, c3


@kernel
def _share(word: Word) -> Float:
    return np.float32(np.int64(word >> _DROPPED)) * _UNIT


@kernel
def draw_uniform(numbers: Array, first: int, count: int, key: Array, step: int) -> int:
    """Draw the numbers `first` to `first + count` of a step from [0, 1).

    Return where in the array the first of them is.
    """
    block = first // WORDS
    blocks = (first + count + WORDS - 1) // WORDS - block
    low, high = np.uint64(step) & _LOW, np.uint64(step) >> _HALF
    key_0, key_1 = np.uint64(key[0]), np.uint64(key[1])
    for i in range(blocks):
        place = np.uint64(block + i)
        words = philox((place & _LOW, place >> _HALF, low, high), (key_0, key_1))
        for word in range(WORDS):
            numbers[WORDS * i + word] = _share(words[word])
    return first - WORDS * block


@inlined
def normal_pair(u: Float, v: Float) -> tuple[Float, Float]:
    """Return two independent numbers of the standard normal distribution (Box and Muller 1958)."""
    radius: Float = math.sqrt(_TWICE * math.log(ONE - u))
    return radius * math.cos(_TURN * v), radius * math.sin(_TURN * v)


@inlined
def choose(probabilities: Array, first: int, end: int, uniform: Float) -> int:
    """Return which of the probabilities `first` to `end` a number from [0, 1) falls on.

    What has probability zero is never chosen, whatever the sum rounds to.
    """
    chosen, total = first, ZERO
    for a in range(first, end):
        if probabilities[a] > ZERO:
            chosen = a
            total += probabilities[a]
            if uniform < total:
                break
    return chosen - first
