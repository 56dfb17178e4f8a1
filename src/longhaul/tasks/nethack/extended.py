"""The actions of the extended set: each presses several keys, and every key counts as a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from longhaul.tasks.nethack.observation.arrays import C_FOOD, C_POTION, Knowledge, Screen
from longhaul.tasks.nethack.vocabulary import EAT_ANY, PRAY, QUAFF, SEARCH_20, TRAVEL

META = 0x80
NOT_A_MEAL = (b"corpse", b" egg", b" tin")
"""Parts of the names of food that may harm or takes long to open."""
HEARTY, HEALING = b"ration", b"healing"


class Keyboard(Protocol):
    """A game whose keys are pressed one by one."""

    screen: Screen
    pack_names: NDArray[np.uint8]

    def press(self, key: int) -> bool:
        """Press one key; return if the game is over."""

    def settle(self) -> bool:
        """Close what is open; return if the game is over."""


def press_keys(game: Keyboard, knowledge: Knowledge, action: int) -> tuple[bool, int]:
    """Press the keys of an action; return whether the game is over, and how many there were."""
    return ACTIONS[action](game, knowledge)


def _press_all(game: Keyboard, keys: bytes) -> tuple[bool, int]:
    for count, key in enumerate(keys, 1):
        if game.press(key):
            return True, count
    return game.settle(), len(keys)


def _pray(game: Keyboard, knowledge: Knowledge) -> tuple[bool, int]:
    return _press_all(game, bytes([ord("p") | META]) + b"y")


def _search(game: Keyboard, knowledge: Knowledge) -> tuple[bool, int]:
    return _press_all(game, b"20s")


def _travel(game: Keyboard, knowledge: Knowledge) -> tuple[bool, int]:
    return _press_all(game, b"_>,")


def _use(game: Keyboard, command: bytes, refuse: bytes, letter: int) -> tuple[bool, int]:
    """Give a command for an item of the pack, and say no to what lies or stands here."""
    pressed = 1
    if game.press(command[0]):
        return True, pressed
    if refuse in game.screen.message.tobytes():
        pressed += 1
        if game.press(ord("n")):
            return True, pressed
    if letter:
        pressed += 1
        if game.press(letter):
            return True, pressed
    return game.settle(), pressed


def _quaff(game: Keyboard, knowledge: Knowledge) -> tuple[bool, int]:
    names = _items(game, int(knowledge.classes[C_POTION]))
    letters = [letter for letter, name in names if HEALING in name]
    return _use(game, b"q", b"rink from", letters[0] if letters else 0)


def _eat(game: Keyboard, knowledge: Knowledge) -> tuple[bool, int]:
    names = _items(game, int(knowledge.classes[C_FOOD]))
    meals = [one for one in names if not any(part in one[1] for part in NOT_A_MEAL)]
    # A ration first: it takes the same number of keys and feeds longest.
    meals.sort(key=lambda one: HEARTY not in one[1])
    return _use(game, b"e", b"; eat ", meals[0][0] if meals else 0)


def _items(game: Keyboard, wanted: int) -> list[tuple[int, bytes]]:
    """Return letter and name of the items of a class."""
    found = []
    screen = game.screen
    for place, letter in enumerate(screen.item_letters.tolist()):
        if letter == 0:
            break
        if screen.item_classes[place] == wanted:
            found.append((letter, game.pack_names[place].tobytes().split(b"\0")[0]))
    return found


ACTIONS: dict[int, Callable[[Keyboard, Knowledge], tuple[bool, int]]] = {
    PRAY: _pray,
    QUAFF: _quaff,
    EAT_ANY: _eat,
    SEARCH_20: _search,
    TRAVEL: _travel,
}
