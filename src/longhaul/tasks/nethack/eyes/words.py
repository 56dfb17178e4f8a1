"""Finding words in the game's message."""

from __future__ import annotations

import numpy as np

from longhaul.core.env import Array
from longhaul.envs.nes.native import kernel


def _bytes(text: str) -> Array:
    return np.frombuffer(text.encode("ascii"), np.uint8)


_LOCKED = _bytes("door is locked")
_FINISHED = _bytes("finish eating")
_DELICIOUS = _bytes("elicious")
_TASTES = _bytes("tastes")
_DIRECTION = _bytes("direction?")
_TO_EAT = _bytes("want to eat")
SPACE, LETTER_A, LETTER_Z, CASE = 32, 97, 122, 32
WORD_FACTOR, WORD_MODULUS = 31, 65521


@kernel
def says(message: Array, words: Array) -> bool:
    """Whether a message, which ends with a zero, holds these words."""
    last = len(message) - len(words)
    for begin in range(last + 1):
        if message[begin] == 0:
            return False
        if message[begin] != words[0]:
            continue
        place = 1
        while place < len(words) and message[begin + place] == words[place]:
            place += 1
        if place == len(words):
            return True
    return False


@kernel
def says_locked(message: Array) -> bool:
    """Whether the hero was told that a door is locked."""
    return says(message, _LOCKED)


@kernel
def says_eaten(message: Array) -> bool:
    """Whether a meal was finished."""
    return says(message, _FINISHED) or says(message, _DELICIOUS) or says(message, _TASTES)


@kernel
def asks_direction(message: Array) -> bool:
    """Whether the game wants a direction."""
    return says(message, _DIRECTION)


@kernel
def asks_item(message: Array) -> bool:
    """Whether the game wants to know what to eat."""
    return says(message, _TO_EAT)


@kernel
def count_words(message: Array, bag: Array) -> None:
    """Write how often each bin of a bag is hit by a word of the message, as square roots."""
    bag[:] = 0.0
    code, length = 0, 0
    for place in range(len(message)):
        letter = message[place] | CASE
        if LETTER_A <= letter <= LETTER_Z and message[place] != 0:
            code = (code * WORD_FACTOR + letter) % WORD_MODULUS
            length += 1
            continue
        # Words of one or two letters tell nothing.
        if length > 2:
            bag[code % len(bag)] += 1.0
        code, length = 0, 0
        if message[place] == 0:
            break
    for place in range(len(bag)):
        bag[place] = np.sqrt(bag[place])
