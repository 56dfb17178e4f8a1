"""A simple script on the observation alone: what the literal reading of a game is compared in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from longhaul.core.env import StepBuffers
from longhaul.tasks.nethack.observation.arrays import DOWNWARD, FOE, FRONTIER, THING
from longhaul.tasks.nethack.observation.numbers import COMPASS, DISTANCE, NEAR
from longhaul.tasks.nethack.vocabulary import (
    ATOM_BITS,
    ATOM_INDEX,
    DOWN,
    EAT,
    KICK,
    MORE,
    MOVES,
    SEARCH,
    STATE,
)

LOST_MOVES = 0.2
"""Share of steps in which the explorer walks at random where it knows no way."""


@dataclass(frozen=True, slots=True)
class Explorer:
    """Fights what is beside it, takes what lies near, explores, and goes down the first stairs."""

    generator: np.random.Generator

    def __call__(self, slots: StepBuffers) -> int:
        """Return the first thing to do of a fixed list."""
        atoms, state = slots.obs[ATOM_BITS][0], slots.obs[STATE][0]

        def holds(*names: str) -> bool:
            return any(atoms[ATOM_INDEX[name]] for name in names)

        if (answer := self._answer(holds, state)) is not None:
            return answer
        if holds("hostile_adjacent") and not holds("touch_danger_adjacent"):
            return _way(state, FOE)
        if holds("on_stairs_down"):
            return DOWN
        if holds("on_safe_corpse") and not holds("hunger_satiated", "recently_eaten"):
            return EAT
        if holds("door_locked") and holds("door_closed_adjacent"):
            return KICK
        for target in (THING, DOWNWARD, FRONTIER):
            if state[DISTANCE + target] > 0:
                return _way(state, target)
        return self._look_about(state)

    def _answer(self, holds: Callable[..., bool], state: np.ndarray) -> int | None:
        """Return the key for an open question."""
        if holds("prompt_direction"):
            # A door that was kicked is straight beside.
            return int(self.generator.integers(1, 5))
        if holds("prompt_confirm"):
            return MOVES[-1] if holds("on_safe_corpse") else MORE  # northwest is the key of yes
        if holds("prompt_item", "stuck"):
            return MORE if self.generator.random() < 0.5 else self._walk(state)
        return None

    def _look_about(self, state: np.ndarray) -> int:
        """Search, and sometimes walk, where no way is known."""
        return self._walk(state) if self.generator.random() < LOST_MOVES else SEARCH

    def _walk(self, state: np.ndarray) -> int:
        free = np.flatnonzero(state[NEAR : NEAR + 8])
        return int(self.generator.choice(free)) + 1 if len(free) else SEARCH


def _way(state: np.ndarray, target: int) -> int:
    """Return the first move towards a target; search if it is here."""
    begin = COMPASS + 8 * target
    ways = np.flatnonzero(state[begin : begin + 8])
    return int(ways[0]) + 1 if len(ways) else SEARCH
