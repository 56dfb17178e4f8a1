"""Exploring: a lock that opens after a long sequence of right choices, and pays only then.

Every position of the lock has one right choice among `choices`, the same in every episode. A wrong
one ends the episode with nothing; the last right one pays 1. Random choices open a lock of 20
positions with 4 choices once in 10**12 episodes, so only a policy that is shown the way learns it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, Ending, Start, StepBuffers
from longhaul.core.seeds import generator_state, restore_generator
from longhaul.core.settings import Settings
from longhaul.core.spaces import Discrete, EnvSpec, Part, Tier
from longhaul.core.state import State

KEY_SEED = 20


@dataclass(frozen=True, slots=True)
class LockFactory:
    """Makes locks; picklable."""

    positions: int = 20
    choices: int = 4

    @property
    def spec(self) -> EnvSpec:
        """The position, one-hot, and one distracting number."""
        return EnvSpec(
            id=f"lock-{self.positions}-{self.choices}",
            observation={"obs": Part((self.positions + 1,))},
            action=Discrete(self.choices),
            tier=Tier.SNAPSHOT,
        )

    @property
    def key(self) -> tuple[int, ...]:
        """The right choices."""
        drawn = np.random.default_rng(KEY_SEED).integers(self.choices, size=self.positions)
        return tuple(drawn.tolist())

    def __call__(self) -> LockEnv:
        """Return a new lock."""
        return LockEnv(self)


class LockEnv:
    """One row that tries to open it."""

    def __init__(self, factory: LockFactory) -> None:
        self.spec = factory.spec
        self._key = factory.key
        self._slots = StepBuffers.allocate(self.spec, 1)
        self._random = np.random.default_rng(0)
        self._position = 0

    def bind(self, slots: StepBuffers) -> None:
        """Write into these views."""
        self._slots = slots

    def reset(self, seed: int, start: Start | None) -> None:
        """Lock it again."""
        self._random = np.random.default_rng(seed)
        self._position = 0
        self._show()

    def step(self, actions: Array) -> Ending | None:
        """Try a choice."""
        right = int(actions[0]) == self._key[self._position]
        opened = right and self._position == len(self._key) - 1
        over = opened or not right
        self._position += right and not opened
        self._slots.reward[0] = float(opened)
        self._slots.terminated[0] = over
        self._slots.truncated[0] = False
        self._show()
        return (
            Ending("opened" if opened else "wrong", {"is_success": float(opened)}) if over else None
        )

    def cell(self) -> int:
        """Return the position: the distracting number makes no difference to a search."""
        return self._position

    def configure(self, settings: Settings) -> None:
        """Nothing can be set."""

    def frame(self) -> NDArray[np.uint8] | None:
        """There is nothing to see."""
        return None

    def snapshot(self) -> State:
        """Return position, generator and what is shown."""
        return {
            "position": self._position,
            "random": generator_state(self._random),
            "obs": self._slots.obs["obs"].copy(),
        }

    def restore(self, state: State) -> None:
        """Continue from a snapshot."""
        self._position = int(state["position"])
        restore_generator(self._random, state["random"])
        self._slots.obs["obs"][...] = state["obs"]

    def close(self) -> None:
        """Nothing to free."""

    def _show(self) -> None:
        obs = self._slots.obs["obs"][0]
        obs[:] = 0.0
        obs[self._position] = 1.0
        obs[-1] = self._random.standard_normal() * 0.3
