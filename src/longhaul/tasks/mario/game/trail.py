"""Snapshots of the last part of each episode: where it could be taken up again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longhaul.core.state import State
from longhaul.envs.nes.layout import SIZE
from longhaul.tasks.mario.game.memory import Bytes

NEVER = -1


@dataclass(frozen=True, slots=True)
class Footprint:
    """A console as it was after `step` decisions of its episode."""

    step: int
    row: Bytes


class Trail:
    """The latest `length` snapshots of every game, one in `every` decisions."""

    def __init__(self, count: int, length: int, every: int) -> None:
        self._length = length
        self._every = every
        self._rows: Bytes = np.zeros((count, length, SIZE), np.uint8)
        self._steps: NDArray[np.int32] = np.full((count, length), NEVER, np.int32)

    def keep(self, states: Bytes, elapsed: NDArray[np.int32], begin: int, end: int) -> None:
        """Keep the consoles from `begin` to `end` whose turn it is."""
        for env in (begin + np.flatnonzero(elapsed[begin:end] % self._every == 0)).tolist():
            slot = int(elapsed[env]) // self._every % self._length
            self._rows[env, slot] = states[env]
            self._steps[env, slot] = elapsed[env]

    def clear(self, env: int) -> None:
        """Forget an episode."""
        self._steps[env] = NEVER

    def footprints(self, env: int) -> tuple[Footprint, ...]:
        """Return what is kept of one game's episode, oldest first."""
        order = np.argsort(self._steps[env], kind="stable").tolist()
        return tuple(
            Footprint(int(self._steps[env, slot]), self._rows[env, slot].copy())
            for slot in order
            if self._steps[env, slot] != NEVER
        )

    def snapshot(self) -> State:
        """Return all of it."""
        return {"rows": self._rows.copy(), "steps": self._steps.copy()}

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self._rows[...] = state["rows"]
        self._steps[...] = state["steps"]
