"""Telling which question of the game is open, and whether our keys can answer it."""

from __future__ import annotations

from longhaul.core.env import Array
from longhaul.envs.nes.native import kernel
from longhaul.tasks.nethack.eyes.arrays import (
    ASKS_CONFIRMATION,
    ASKS_DIRECTION,
    ASKS_ITEM,
    NO_PROMPT,
)
from longhaul.tasks.nethack.eyes.words import asks_direction, asks_item


@kernel
def open_prompt(modes: Array, message: Array) -> int:
    """Return the kind of question that waits for a key."""
    if not modes[0]:
        return NO_PROMPT
    if asks_direction(message):
        return ASKS_DIRECTION
    return ASKS_ITEM if asks_item(message) else ASKS_CONFIRMATION


@kernel
def has_key_for(letters: Array, classes: Array, wanted: int, keys: Array) -> bool:
    """Whether an item of the wanted class has a letter that is one of the keys."""
    for place in range(len(letters)):
        if letters[place] == 0:
            return False
        if classes[place] == wanted:
            for key in keys:
                if key == letters[place]:
                    return True
    return False
