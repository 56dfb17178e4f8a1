"""Screens made by hand: a room with a hero in it, and whatever a test puts there."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
from nle import nethack

from longhaul.tasks.nethack.game import KEYS
from longhaul.tasks.nethack.observation import arrays
from longhaul.tasks.nethack.observation.arrays import (
    Knowledge,
    Recall,
    Scratch,
    Screen,
    ShownArrays,
)
from longhaul.tasks.nethack.observation.glyphs import glyph_named, know
from longhaul.tasks.nethack.observation.look import FIRST, GameView, keep_view, look_at_game
from longhaul.tasks.nethack.rules import read_rules
from longhaul.tasks.nethack.vocabulary import ACTIONS, ATOM_NAMES

HERO = (10, 40)


@cache
def knowledge() -> Knowledge:
    return know(read_rules())


@cache
def monster(name: str) -> int:
    for number in range(nethack.NUMMONS):
        if nethack.permonst(number).mname == name:
            return int(nethack.GLYPH_MON_OFF + number)
    raise KeyError(name)


@cache
def thing(name: str) -> int:
    for number in range(nethack.NUM_OBJECTS):
        if nethack.OBJ_NAME(nethack.objclass(number)) == name:
            return int(nethack.GLYPH_OBJ_OFF + number)
    raise KeyError(name)


@dataclass
class Desk:
    """A game nobody plays: its screen is written by hand and looked at."""

    screen: Screen = field(
        default_factory=lambda: Screen(*(np.zeros(**nethack.OBSERVATION_DESC[key]) for key in KEYS))
    )
    recall: Recall = field(default_factory=Recall.allocate)
    outcome: ShownArrays = field(default_factory=lambda: ShownArrays.allocate(9))

    def __post_init__(self) -> None:
        self.screen.glyphs[:] = glyph_named("nothing")
        self.recall.numbers[arrays.R_CAP] = 100
        y, x = HERO
        self.fill("wall", (y - 3, x - 5), (y + 3, x + 5))
        self.fill("floor of a room", (y - 2, x - 4), (y + 2, x + 4))
        self.put_hero(HERO)
        self.status(HP=16, HPMAX=16, DEPTH=1, XP=1, HUNGER=1, AC=5, TIME=1, DLEVEL=1)
        self.view = GameView(
            self.screen,
            self.recall,
            knowledge(),
            Scratch.allocate(len(knowledge().aims)),
            self.outcome,
        )

    def status(self, **values: int) -> None:
        for name, value in values.items():
            self.screen.status[vars(nethack)[f"NLE_BL_{name}"]] = value

    def fill(self, symbol: str, first: tuple[int, int], last: tuple[int, int]) -> None:
        self.screen.glyphs[first[0] : last[0] + 1, first[1] : last[1] + 1] = glyph_named(symbol)

    def put(self, glyph: int, down: int, right: int) -> None:
        """Put a glyph at a place seen from the hero."""
        y, x = self.hero
        self.screen.glyphs[y + down, x + right] = glyph

    @property
    def hero(self) -> tuple[int, int]:
        return int(self.screen.status[arrays.Y]), int(self.screen.status[arrays.X])

    def put_hero(self, place: tuple[int, int]) -> None:
        self.status(Y=place[0], X=place[1])
        self.screen.glyphs[place] = monster("monk")

    def step(self, down: int, right: int) -> None:
        """Move the hero; floor is left behind."""
        y, x = self.hero
        self.screen.glyphs[y, x] = glyph_named("floor of a room")
        self.put_hero((y + down, x + right))

    def say(self, text: str, *, asks: bool = False) -> None:
        self.screen.message[:] = 0
        self.screen.message[: len(text)] = np.frombuffer(text.encode(), np.uint8)
        self.screen.modes[0] = asks

    def carry(self, **letters: int) -> None:
        """Put items into the pack: the letter and the item's glyph."""
        for place, (letter, glyph) in enumerate(letters.items()):
            kind = nethack.objclass(nethack.glyph_to_obj(glyph)).oc_class
            self.screen.item_letters[place] = ord(letter)
            self.screen.item_glyphs[place] = glyph
            self.screen.item_classes[place] = ord(kind)

    def look(self, action: str = "") -> set[str]:
        """Look, after an action or at the beginning; return the atoms that hold."""
        look_at_game(keep_view(self.view), ACTIONS.index(action) if action else FIRST)
        return {name for name, bit in zip(ATOM_NAMES, self.outcome.atoms, strict=True) if bit}

    def opened(self) -> set[str]:
        return {name for name, bit in zip(ACTIONS, self.outcome.mask, strict=True) if bit}
