"""Snapshots of the last part of each episode: where it could be taken up again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array
from longhaul.core.state import State
from longhaul.envs.crew.chain import Labour, Link, bind
from longhaul.envs.crew.words import fetch
from longhaul.envs.nes.layout import SIZE
from longhaul.envs.nes.native import integer
from longhaul.tasks.mario.game.figures import ELAPSED
from longhaul.tasks.mario.game.memory import Bytes
from longhaul.tasks.mario.game.native import kernel_stamp

NEVER = -1


@dataclass(frozen=True, slots=True)
class Footprint:
    """A console as it was after `step` decisions of its episode."""

    step: int
    row: Bytes


class Keeping(NamedTuple):
    """What keeping a snapshot takes."""

    states: Array  # [N, SIZE] uint8
    figures: Array  # [N, FIGURES] int32
    rows: Array  # [N, length, SIZE] uint8
    steps: Array  # [N, length] int32
    every: int


def _build(stamp: int) -> Labour:
    def keep(pointer: Any, index: int, member: int) -> int:
        """Keep a console if it is its turn."""
        _ = stamp
        keeping = fetch(pointer)
        elapsed = integer(keeping.figures[index, ELAPSED])
        if elapsed % keeping.every == 0:
            slot = elapsed // keeping.every % keeping.rows.shape[1]
            keeping.rows[index, slot] = keeping.states[index]
            keeping.steps[index, slot] = elapsed
        return 0

    return keep


keep = _build(kernel_stamp())


class Trail:
    """The latest `length` snapshots of every game, one in `every` decisions."""

    def __init__(self, count: int, length: int, every: int) -> None:
        self._length = length
        self._every = every
        self._rows: Bytes = np.zeros((count, length, SIZE), np.uint8)
        self._steps: NDArray[np.int32] = np.full((count, length), NEVER, np.int32)

    def bound(self, states: Bytes, figures: NDArray[np.int32]) -> Link:
        """Return, as a link of native work, the keeping of a game whose turn it is."""
        return bind(keep, Keeping(states, figures, self._rows, self._steps, self._every))

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
