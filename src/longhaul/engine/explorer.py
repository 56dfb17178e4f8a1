"""Archive search: return to a cell that was reached, act at random from there, keep what is new.

The method is the first phase of Go-Explore (Ecoffet et al. 2021) with restored states. What it does
depends on the seed alone: neither on time nor on the number of threads.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longhaul.core.config import AT_LEAST_1, SHARE, check_ranges
from longhaul.core.errors import ConfigError
from longhaul.core.search import SearchSpace, Sight
from longhaul.core.seeds import generator_state, restore_generator
from longhaul.core.state import State
from longhaul.engine.archive import NOWHERE, Archive, Way

MOST_CHOICES = 256
"""A decision is kept in a byte."""


@dataclass(frozen=True, slots=True)
class ExplorerOptions:
    """How the search moves."""

    patience: int = 64
    """Decisions an attempt goes on after the last new cell."""
    longest: int = 384
    """Decisions after which it ends in any case."""
    newest_share: float = 0.4
    """Share of the attempts that begin in one of the newest cells."""
    holds: tuple[int, ...] = (4, 8, 16)
    """An attempt draws one of these, and holds each of its actions for 1 to so many decisions."""
    credit: float = 0.9
    """What is left of a cell's count of attempts for each new cell found from it."""

    def __post_init__(self) -> None:
        ranges = {AT_LEAST_1: "patience longest", SHARE: "newest_share credit"}
        check_ranges(self, "explore", ranges)
        if not self.holds or min(self.holds) < 1:
            raise ConfigError(f"explore.holds = {self.holds} must be one or more whole numbers")


class Explorer:
    """Searches a space step by step until a simulator has solved it."""

    def __init__(
        self,
        space: SearchSpace,
        rng: np.random.Generator,
        options: ExplorerOptions | None = None,
    ) -> None:
        self.archive = Archive()
        self.steps = 0
        """Decisions taken in all simulators together."""
        self.reach = 0.0
        """The farthest place any kept state has come to."""
        self.solution: bytes | None = None
        self.leg = 0
        """The part of the goal that is searched for."""
        self._solved = b""
        """The decisions of the legs before."""
        self._space = space
        self._options = options or ExplorerOptions()
        self._rng = rng
        count, weights = space.count, np.array(space.weights, np.float64)
        if len(weights) > MOST_CHOICES:
            raise ConfigError(f"explore takes at most {MOST_CHOICES} choices, not {len(weights)}")
        self._draws = np.cumsum(weights / weights.sum())
        self._everyone = np.arange(count)
        # Of the attempt each simulator is in:
        self._origin = np.zeros(count, np.int64)  # the cell it began in
        self._parent = np.zeros(count, np.int64)  # the way into that cell, then
        self._taken = np.zeros((count, self._options.longest), np.uint8)  # decisions since then
        self._length = np.zeros(count, np.int64)
        self._limit = np.zeros(count, np.int64)
        self._action = np.zeros(count, np.int64)
        self._hold = np.zeros(count, np.int64)  # decisions for which the action is still held
        self._longest_hold = np.zeros(count, np.int64)
        self._cell = np.zeros(count, np.int64)  # the last cell it was seen in

    def begin(self) -> None:
        """Put every simulator at the start."""
        self._space.begin()
        self._begin_leg(0)

    def _begin_leg(self, env: int) -> None:
        """Make the state of one simulator the first cell of a new archive."""
        sight = self._space.look()
        self.archive = Archive()
        way = Way(float(sight.cost[env]), NOWHERE, b"")
        self.archive.add(int(sight.cells[env]), self._space.save(env), way)
        self.reach = max(self.reach, float(sight.reach[env]))
        self._attempt(self._everyone)

    def advance(self) -> bytes | None:
        """Take one decision in every simulator; return those that solve it once they are found."""
        self._choose_actions()
        self._taken[self._everyone, self._length] = self._action
        self._length += 1
        sight = self._space.step(self._action)
        self.steps += self._space.count
        won = np.flatnonzero(sight.solved).tolist()
        if won:
            return self._solve(won)
        self._keep(sight)
        done = np.flatnonzero(sight.over | (self._length >= self._limit))
        if len(done):
            self._attempt(done)
        return None

    def _solve(self, won: list[int]) -> bytes | None:
        """Go on with the next leg from the shortest solution of this one; return the last one."""
        best = min(won, key=lambda env: len(self._decisions(env)))
        self._solved += self._decisions(best)
        if self.leg + 1 == self._space.legs:
            self.solution = self._solved
            return self.solution
        self.leg += 1
        self._space.begin_leg(self.leg)
        self._begin_leg(best)
        return None

    @property
    def legs(self) -> int:
        """How many parts the goal has."""
        return self._space.legs

    def digest(self) -> str:
        """Return a digest of the archive and of the legs before it."""
        return hashlib.sha256(self.archive.digest().encode() + self._solved).hexdigest()

    def _choose_actions(self) -> None:
        """Draw an action wherever the last one has been held long enough."""
        new = np.flatnonzero(self._hold <= 0)
        if len(new):
            drawn = np.searchsorted(self._draws, self._rng.random(len(new)), side="right")
            self._action[new] = np.minimum(drawn, len(self._draws) - 1)
            longest = self._longest_hold[new]
            self._hold[new] = 1 + (self._rng.random(len(new)) * longest).astype(np.int64)
        self._hold -= 1

    def _attempt(self, envs: NDArray[np.int64]) -> None:
        """Begin an attempt in each of `envs`, from a cell that is drawn."""
        archive = self.archive
        slots = archive.choose(self._rng, len(envs), newest=self._options.newest_share)
        for env, slot in zip(envs.tolist(), slots.tolist(), strict=True):
            self._space.load(env, archive.saved(slot))
            self._origin[env], self._parent[env] = slot, archive.node(slot)
        self._length[envs] = 0
        self._limit[envs] = min(self._options.patience, self._options.longest)
        self._hold[envs] = 0
        self._cell[envs] = NOWHERE
        self._longest_hold[envs] = self._rng.choice(self._options.holds, len(envs))

    def _keep(self, sight: Sight) -> None:
        """Keep the cells that are new, and the ways into known ones that are cheaper."""
        archive, options = self.archive, self._options
        moved = sight.kept & ~sight.over & (sight.cells != self._cell)
        self._cell = sight.cells
        for env in np.flatnonzero(moved).tolist():
            cell, cost = int(sight.cells[env]), float(sight.cost[env])
            slot = archive.slot(cell)
            if slot is None:
                archive.add(cell, self._space.save(env), self._way(env, cost))
                archive.credit(int(self._origin[env]), options.credit)
                self._limit[env] = min(self._length[env] + options.patience, options.longest)
                self.reach = max(self.reach, float(sight.reach[env]))
                continue
            archive.count_seen(slot)
            if cost < archive.cost(slot) - self._space.margin:
                archive.improve(slot, self._space.save(env), self._way(env, cost))

    def _way(self, env: int, cost: float) -> Way:
        """Return the way of an attempt so far, as the archive keeps it."""
        taken = self._taken[env, : self._length[env]].tobytes()
        return Way(cost, int(self._parent[env]), taken)

    def _decisions(self, env: int) -> bytes:
        """Return all decisions of an attempt, from the start on."""
        _, parent, taken = self._way(env, 0.0)
        return self.archive.decisions(parent) + taken

    def state_dict(self) -> State:
        """Return everything needed to continue exactly."""
        space = self._space
        return {
            "archive": self.archive.state_dict(),
            "steps": self.steps,
            "reach": self.reach,
            "solution": self.solution,
            "leg": self.leg,
            "solved": self._solved,
            "random": generator_state(self._rng),
            "attempts": {name: getattr(self, f"_{name}").copy() for name in ATTEMPT},
            "simulators": [space.save(env) for env in range(space.count)],
        }

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state."""
        self.archive.load_state_dict(state["archive"])
        self.steps, self.reach = state["steps"], state["reach"]
        self.solution, self.leg, self._solved = state["solution"], state["leg"], state["solved"]
        restore_generator(self._rng, state["random"])
        for name in ATTEMPT:
            setattr(self, f"_{name}", np.array(state["attempts"][name]))
        self._space.begin()
        self._space.begin_leg(self.leg)
        for env, saved in enumerate(state["simulators"]):
            self._space.load(env, np.asarray(saved))


ATTEMPT = (
    "origin",
    "parent",
    "taken",
    "length",
    "limit",
    "action",
    "hold",
    "longest_hold",
    "cell",
)
"""What is kept of the attempts under way."""
