"""Walkers on a 5 x 5 grid, each with a separate goal: a batched env with a known optimum.

A row is one walker. It sees the way to its goal, in cells, divided by 4, and a random number that
means nothing, drawn every step. It moves one cell or stays; every step costs `chase.step_cost`,
arriving pays 1 and ends the row, which then is inactive until the others are done too. After
`time_limit` steps the rest are truncated.

Start and goal are a uniformly drawn pair of different cells, 10/3 steps apart on average, so the
best mean return is `1 - step_cost * 10 / 3`: 5/6 at the default cost of 0.05, where staying still
for the whole episode returns -0.05 * time_limit. A hard start `(x, y)` puts every walker there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, BatchedEnvs, Ending, Start, StepBuffers
from longhaul.core.errors import EnvError
from longhaul.core.native import entry
from longhaul.core.settings import Setting, Settings
from longhaul.core.spaces import Discrete, EnvSpec, Part, Tier
from longhaul.core.state import State

SIDE = 5
MOVES = 5
"""Stay, left, right, up, down."""
MEAN_DISTANCE = 10 / 3

STEP_COST: Setting[float] = Setting("chase.step_cost", 0.05, "Cost of every step", low=0.0)


def best_return(step_cost: float = STEP_COST.default) -> float:
    """Return the mean return of the best policy over all starts."""
    return 1.0 - step_cost * MEAN_DISTANCE


@entry
def _draw(generator: NDArray[np.uint64], env: int) -> float:
    """Return the next number in [0, 1) of this simulator's own xorshift stream."""
    word = generator[env]
    word ^= word >> np.uint64(12)
    word ^= word << np.uint64(25)
    word ^= word >> np.uint64(27)
    generator[env] = word
    return float((word * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(40)) / 16777216.0


@entry
def _seed(generator: NDArray[np.uint64], env: int, seed: int) -> None:
    """Begin the stream of `seed`; splitmix spreads small seeds over all bits."""
    word = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word = word ^ (word >> np.uint64(31))
    generator[env] = word if word != np.uint64(0) else np.uint64(1)


@entry
def _place(
    generator: NDArray[np.uint64], cells: NDArray[np.int16], envs: Array, seeds: Array, start: int
) -> None:
    """Put the walkers of `envs` and their goals on the grid; `start` is a cell or -1."""
    count = SIDE * SIDE
    for position in range(len(envs)):
        env = envs[position]
        _seed(generator, env, seeds[position])
        for row in range(cells.shape[1]):
            walker = int(_draw(generator, env) * count)
            if start >= 0:
                walker = start
            # The goal is one of the other cells, each as likely.
            goal = (walker + 1 + int(_draw(generator, env) * (count - 1))) % count
            cells[env, row, 0], cells[env, row, 1] = walker % SIDE, walker // SIDE
            cells[env, row, 2], cells[env, row, 3] = goal % SIDE, goal // SIDE


@entry
def _show(
    generator: NDArray[np.uint64],
    cells: NDArray[np.int16],
    env: int,
    obs: Array,
    mask: Array,
    active: Array,
) -> None:
    """Write what the walkers of one simulator see and which moves stay on the grid."""
    rows = cells.shape[1]
    for row in range(rows):
        slot = env * rows + row
        noise = _draw(generator, env)
        x, y, goal_x, goal_y = cells[env, row]
        here = 1.0 if active[slot] else 0.0
        obs[slot, 0] = here * (goal_x - x) / (SIDE - 1)
        obs[slot, 1] = here * (goal_y - y) / (SIDE - 1)
        obs[slot, 2] = here * noise
        mask[slot, 0] = True
        mask[slot, 1] = x > 0
        mask[slot, 2] = x < SIDE - 1
        mask[slot, 3] = y > 0
        mask[slot, 4] = y < SIDE - 1


@entry
def _walk(cells: NDArray[np.int16], env: int, row: int, move: int) -> bool:
    """Move one walker, not beyond the border; return whether it is at its goal."""
    x, y = cells[env, row, 0], cells[env, row, 1]
    if move == 1:
        x = max(x - 1, 0)
    elif move == 2:
        x = min(x + 1, SIDE - 1)
    elif move == 3:
        y = max(y - 1, 0)
    elif move == 4:
        y = min(y + 1, SIDE - 1)
    cells[env, row, 0], cells[env, row, 1] = x, y
    return bool(x == cells[env, row, 2] and y == cells[env, row, 3])


@entry
def _step_one(
    world: tuple[Array, ...], slots: tuple[Array, ...], env: int, actions: Array, time_limit: int
) -> None:
    generator, cells, cost, elapsed, over = world
    obs, mask, active, reward, terminated, truncated, arrival, paid = slots
    rows = cells.shape[1]
    elapsed[env] += 1
    late = elapsed[env] >= time_limit
    present = 0
    for row in range(rows):
        slot = env * rows + row
        arrived = active[slot] and _walk(cells, env, row, actions[slot])
        arrival[slot] = 1.0 if arrived else 0.0
        paid[slot] = -cost[env] if active[slot] else 0.0
        reward[slot] = arrival[slot] + paid[slot]
        terminated[slot] = arrived
        truncated[slot] = late and active[slot] and not arrived
        active[slot] = active[slot] and not arrived
        present += active[slot]
    over[env] = late or present == 0
    _show(generator, cells, env, obs, mask, active)


@entry
def _step(
    world: tuple[Array, ...],
    slots: tuple[Array, ...],
    pieces: tuple[int, int],
    actions: Array,
    time_limit: int,
) -> None:
    for env in range(pieces[0], pieces[1]):
        _step_one(world, slots, env, actions, time_limit)


@dataclass(frozen=True, slots=True)
class ChaseFactory:
    """Makes batches of simulators; picklable."""

    rows: int = 1
    time_limit: int = 20
    has_masks: bool = False

    def __call__(self, count: int) -> Chase:
        """Return `count` simulators."""
        return Chase(self, count)

    @property
    def spec(self) -> EnvSpec:
        """The shapes and promises of one simulator."""
        return EnvSpec(
            id="probe:chase",
            observation={"obs": Part((3,))},
            action=Discrete(MOVES),
            rows=self.rows,
            tier=Tier.SNAPSHOT,
            has_masks=self.has_masks,
            terms=("arrival", "step_cost"),
        )


class Chase:
    """A batch of simulators behind the `BatchedEnv` protocol."""

    def __init__(self, factory: ChaseFactory, count: int) -> None:
        rows = factory.rows
        self.spec = factory.spec
        self.count = count
        self._time_limit = factory.time_limit
        self._generator = np.ones(count, np.uint64)
        self._cells = np.zeros((count, rows, 4), np.int16)  # walker x, y, goal x, y
        self._cost = np.full(count, STEP_COST.default, np.float32)
        self._elapsed = np.zeros(count, np.int64)
        self.over = np.zeros(count, np.bool_)  # whose episode ended in the last step
        self._next_cost = STEP_COST.default
        self._world = (self._generator, self._cells, self._cost, self._elapsed, self.over)
        self._slots: tuple[Array, ...]
        self.bind(StepBuffers.allocate(self.spec, count * rows))

    def bind(self, slots: StepBuffers) -> None:
        """Write into these arrays, `count * spec.rows` rows, env-major."""
        mask = slots.mask
        if mask is None:
            # The kernels always write moves; without masks this array is not read.
            mask = np.ones((self.count * self.spec.rows, MOVES), np.bool_)
        self._slots = (
            slots.obs["obs"],
            mask,
            slots.active,
            slots.reward,
            slots.terminated,
            slots.truncated,
            slots.terms["arrival"],
            slots.terms["step_cost"],
        )

    def reset(
        self, envs: NDArray[np.int64], seeds: NDArray[np.int64], starts: list[Start | None]
    ) -> None:
        """Begin an episode in each of `envs`."""
        obs, mask, active = self._slots[:3]
        rows = self.spec.rows
        for position, start in enumerate(starts):
            one = slice(position, position + 1)
            env = int(envs[position])
            _place(self._generator, self._cells, envs[one], seeds[one], _start_cell(start))
            active[env * rows : (env + 1) * rows] = True
            _show(self._generator, self._cells, env, obs, mask, active)
        self._elapsed[envs] = 0
        self.over[envs] = False
        self._cost[envs] = self._next_cost

    def step(self, begin: int, end: int, actions: Array) -> None:
        """Step simulators `begin` to `end`; safe to call at once for disjoint ranges."""
        _step(self._world, self._slots, (begin, end), actions, self._time_limit)

    def ending(self, env: int) -> Ending:
        """Return how the episode of `env`, which is over, ended."""
        rows = slice(env * self.spec.rows, (env + 1) * self.spec.rows)
        late = int(self._slots[5][rows].sum())
        arrived = (self.spec.rows - late) / self.spec.rows
        return Ending("time_limit" if late else "arrived", {"arrived": arrived})

    def configure(self, settings: Settings) -> None:
        """Take settings into account from each simulator's next reset on."""
        if STEP_COST.name in settings:
            self._next_cost = settings[STEP_COST]

    def frame(self, env: int) -> NDArray[np.uint8] | None:
        """Return a picture of the grid: goals green, walkers white, both yellow."""
        grid = np.zeros((SIDE, SIDE, 3), np.uint8)
        for x, y, goal_x, goal_y in self._cells[env]:
            grid[goal_y, goal_x, 1] = 255
            grid[y, x] |= np.array([255, 255, 0 if (x, y) == (goal_x, goal_y) else 255], np.uint8)
        return grid.repeat(16, axis=0).repeat(16, axis=1)

    def snapshot(self) -> State:
        """Return the state of all simulators."""
        obs, mask, active = self._slots[:3]
        return {
            "generator": self._generator.copy(),
            "cells": self._cells.copy(),
            "cost": self._cost.copy(),
            "elapsed": self._elapsed.copy(),
            "next_cost": self._next_cost,
            "obs": obs.copy(),
            "mask": mask.copy(),
            "active": active.copy(),
        }

    def restore(self, state: State) -> None:
        """Continue from a snapshot and write the slots."""
        self._generator[...] = state["generator"]
        self._cells[...] = state["cells"]
        self._cost[...] = state["cost"]
        self._elapsed[...] = state["elapsed"]
        self.over[...] = False
        self._next_cost = state["next_cost"]
        obs, mask, active = self._slots[:3]
        obs[...] = state["obs"]
        mask[...] = state["mask"]
        active[...] = state["active"]

    def close(self) -> None:
        """Free what the simulators hold: nothing."""


def chase_envs(*, rows: int = 1, time_limit: int = 20, has_masks: bool = False) -> BatchedEnvs:
    """Return the source of chase simulators with `rows` walkers each."""
    factory = ChaseFactory(rows=rows, time_limit=time_limit, has_masks=has_masks)
    return BatchedEnvs(factory.spec, factory)


def _start_cell(start: Start | None) -> int:
    if start is None:
        return -1
    match start:
        case (int() as x, int() as y) if 0 <= x < SIDE and 0 <= y < SIDE:
            return x + y * SIDE
        case _:
            raise EnvError(f"start {start!r} is not a cell (x, y) of the {SIDE} x {SIDE} grid")
