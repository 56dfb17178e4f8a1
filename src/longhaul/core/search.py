"""What archive search needs: simulators that can be saved, put back, and sorted into cells."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Bools, Episode, Start

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Sight:
    """Where every simulator is after a step, [count] each."""

    cells: NDArray[np.int64]
    cost: NDArray[np.float64]
    """What the way from the start took; of two ways into a cell the cheaper one is kept."""
    reach: NDArray[np.float64]
    """How far it has come, in the task's measure; for people who watch."""
    over: Bools
    solved: Bools
    kept: Bools
    """Whether it is fit to be searched on from."""


class SearchSpace(Protocol):
    """Many simulators of one task, all at the same start, as archive search moves them."""

    @property
    def count(self) -> int:
        """How many simulators there are."""

    @property
    def weights(self) -> tuple[float, ...]:
        """How often each choice is drawn; one number per choice."""

    @property
    def margin(self) -> float:
        """How much cheaper a way must be to take the place of the known one."""

    @property
    def facts(self) -> Mapping[str, str]:
        """What a replay of decisions must have in common with the search."""

    @property
    def legs(self) -> int:
        """How many parts the goal has; each is searched from where the one before was solved."""

    def begin(self) -> None:
        """Put every simulator at the start, for the first leg."""

    def begin_leg(self, number: int) -> None:
        """Search for this leg from now on, counted from 0."""

    def look(self) -> Sight:
        """Return where every simulator is now."""

    def step(self, actions: NDArray[np.int64]) -> Sight:
        """Take a choice in every simulator; those that are over must be put back first.

        What is solved is the present leg.
        """

    def save(self, env: int) -> Bytes:
        """Return the whole state of one simulator."""

    def load(self, env: int, saved: Bytes) -> None:
        """Put one simulator into a saved state."""

    def digest(self, env: int) -> str:
        """Return a digest of the state of one simulator, equal after equal decisions."""

    def start(self, env: int) -> Start:
        """Return the hard start with which training begins an episode where a simulator is."""

    def frame(self, env: int) -> Bytes | None:
        """Return the present picture of one simulator, None if there is none."""

    def close(self) -> None:
        """Free what is held."""


@dataclass(frozen=True, slots=True)
class Search:
    """How a task is searched: its goals, each from its own start, and the simulators of one."""

    goals: tuple[str, ...]
    """Names fit for files, in order."""
    space: Callable[[str, int, int], SearchSpace]
    """Return the simulators of a goal: its name, how many, and the threads that share them."""
    is_solved: Callable[[Episode], bool]
    """Whether an episode of training reached its goal."""
    origin: Callable[[str], Start | None] = lambda goal: None
    """Return the start with which training begins an episode at a goal's true start; None is the
    environment's usual one."""
    by_name: tuple[str, ...] = ()
    """Goals that `all` leaves out."""
    reach: str = "reach"
    """What the measure of `Sight.reach` is called."""


@runtime_checkable
class HasCell(Protocol):
    """An environment that names the cell it is in, instead of its observation."""

    def cell(self) -> Hashable:
        """Return plain values that are equal in states worth treating alike."""
