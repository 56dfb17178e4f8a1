"""The random numbers of a game: one stream each, begun by the episode's seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MASK = (1 << 64) - 1


def begin_stream(generator: NDArray[np.uint64], env: int, seed: int) -> None:
    """Begin the stream of `seed`; splitmix spreads small seeds over all bits."""
    word = (seed + 0x9E3779B97F4A7C15) & MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    generator[env] = (word ^ (word >> 31)) or 1


def draw_once(generator: NDArray[np.uint64], env: int) -> float:
    """Return the next number in [0, 1) of a game's stream: the same as `course.draw`."""
    word = int(generator[env])
    word ^= word >> 12
    word = (word ^ (word << 25)) & MASK
    word ^= word >> 27
    generator[env] = word
    return ((word * 0x2545F4914F6CDD1D & MASK) >> 40) / 16777216.0
