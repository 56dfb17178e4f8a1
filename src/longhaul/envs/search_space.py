"""Any environments with snapshots as a space for archive search."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import (
    Array,
    Ending,
    EnvSource,
    Episode,
    Observation,
    SingleEnvs,
    Start,
    StepBuffers,
    empty_actions,
)
from longhaul.core.errors import ConfigError
from longhaul.core.search import Bytes, HasCell, Sight
from longhaul.core.spaces import Discrete, Tier
from longhaul.envs.packed_state import pack_state, unpack_state
from longhaul.envs.starts import state_start

SUCCESS = "is_success"
"""The metric of an ending that is above 0 if the episode reached the goal."""
RESOLUTION = 8.0
"""Numbers of an observation are rounded to so many steps per unit to become a cell."""
SEED = 0
"""Of the episode that is searched: all simulators begin alike."""


@dataclass(slots=True)
class _Bodies:
    """What is known of each simulator beside its own state."""

    cells: NDArray[np.int64]
    steps: NDArray[np.int64]
    returns: NDArray[np.float64]
    over: NDArray[np.bool_]
    solved: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.solved = np.zeros_like(self.over)


class EnvSpace:
    """Environments made one by one, tier snapshot, with one row and discrete actions.

    An episode that ends with `is_success`, or with a return of at least `goal`, is solved. The cell
    is what the environment's own `cell()` returns, or else its observation, rounded.
    """

    margin = 0.0
    legs = 1

    def __init__(self, source: EnvSource, count: int, *, goal: float | None = None) -> None:
        spec = source.spec
        is_fit = spec.tier is Tier.SNAPSHOT and spec.rows == 1
        if not (isinstance(source, SingleEnvs) and isinstance(spec.action, Discrete) and is_fit):
            raise ConfigError(
                f"{spec.id} cannot be searched: explore needs an environment that can save and "
                "restore its state (snapshot() and restore()) and takes one choice per step for "
                "one body; add these to the environment, or set Task.search"
            )
        self._choices = spec.action.count
        self._goal = goal
        self._envs = [source.make() for _ in range(count)]
        self._slots = [StepBuffers.allocate(spec, 1) for _ in range(count)]
        for env, slots in zip(self._envs, self._slots, strict=True):
            env.bind(slots)
        self._actions = empty_actions(spec, 1)
        self._id = spec.id
        self._bodies = _Bodies(
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
            np.zeros(count),
            np.zeros(count, np.bool_),
        )

    @property
    def count(self) -> int:
        """How many simulators there are."""
        return len(self._envs)

    @property
    def weights(self) -> tuple[float, ...]:
        """All choices are drawn alike."""
        return (1.0,) * self._choices

    @property
    def facts(self) -> Mapping[str, str]:
        """The environment and its seed."""
        return {"env": self._id, "seed": str(SEED)}

    def begin(self) -> None:
        """Put every simulator at the start."""
        bodies = self._bodies
        for env, simulator in enumerate(self._envs):
            simulator.reset(SEED, None)
            bodies.cells[env] = self._cell(env)
        bodies.steps[:], bodies.returns[:] = 0, 0.0
        bodies.over[:] = bodies.solved[:] = False

    def begin_leg(self, number: int) -> None:
        """There is one leg only."""

    def step(self, actions: NDArray[np.int64]) -> Sight:
        """Take a choice in every simulator that is not over."""
        bodies = self._bodies
        for env, simulator in enumerate(self._envs):
            self._actions[0] = actions[env]
            ending = simulator.step(self._actions)
            bodies.steps[env] += 1
            bodies.returns[env] += self._slots[env].reward[0]
            bodies.cells[env] = self._cell(env)
            bodies.over[env] = ending is not None
            bodies.solved[env] = ending is not None and self._is_solved(env, ending)
        return self.look()

    def save(self, env: int) -> Bytes:
        """Return the whole state of one simulator."""
        bodies = self._bodies
        state = {
            "env": self._envs[env].snapshot(),
            "steps": int(bodies.steps[env]),
            "return": float(bodies.returns[env]),
            "over": bool(bodies.over[env]),
        }
        return np.frombuffer(pack_state(state), np.uint8)

    def load(self, env: int, saved: Bytes) -> None:
        """Put one simulator into a saved state."""
        bodies, state = self._bodies, unpack_state(saved.tobytes())
        self._envs[env].restore(state["env"])
        bodies.steps[env], bodies.returns[env] = state["steps"], state["return"]
        bodies.over[env] = state["over"]
        bodies.cells[env] = self._cell(env)

    def digest(self, env: int) -> str:
        """Return a digest of the state of one simulator."""
        return hashlib.sha256(pack_state(self._envs[env].snapshot())).hexdigest()

    def start(self, env: int) -> Start:
        """Return the hard start with which training begins an episode where a simulator is."""
        return state_start(self._envs[env].snapshot())

    def frame(self, env: int) -> Bytes | None:
        """Return the present picture of one simulator."""
        return self._envs[env].frame()

    def close(self) -> None:
        """Close the simulators."""
        for simulator in self._envs:
            simulator.close()

    def _is_solved(self, env: int, ending: Ending) -> bool:
        if SUCCESS in ending.metrics:
            return ending.metrics[SUCCESS] > 0
        return self._goal is not None and float(self._bodies.returns[env]) >= self._goal

    def _cell(self, env: int) -> int:
        simulator = self._envs[env]
        if isinstance(simulator, HasCell):
            return cell_of(simulator.cell())
        return cell_of(_rounded(self._slots[env].obs))

    def look(self) -> Sight:
        """Return where every simulator is now."""
        bodies = self._bodies
        return Sight(
            cells=bodies.cells.copy(),
            cost=bodies.steps.astype(np.float64),
            reach=bodies.returns.copy(),
            over=bodies.over.copy(),
            solved=bodies.solved.copy(),
            kept=~bodies.over,
        )


def solved_by(goal: float | None) -> Callable[[Episode], bool]:
    """Return whether an episode is solved: by its `is_success`, or else by its return."""

    def is_solved(episode: Episode) -> bool:
        if SUCCESS in episode.metrics:
            return episode.metrics[SUCCESS] > 0
        return goal is not None and episode.episode_return >= goal

    return is_solved


def cell_of(value: Hashable) -> int:
    """Return the number of a cell that is named by plain values."""
    digest = hashlib.blake2b(repr(value).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _rounded(observation: Observation) -> tuple[bytes, ...]:
    return tuple(_coarse(part).tobytes() for _, part in sorted(observation.items()))


def _coarse(part: Array) -> Array:
    if part.dtype.kind != "f":
        return part
    return np.round(part * RESOLUTION).astype(np.int64)
