"""An environment whose every observation depends on its seed and all actions since."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, Ending, SingleEnvs, Start, StepBuffers
from longhaul.core.settings import Settings
from longhaul.core.spaces import Discrete, EnvSpec, Part, Tier
from longhaul.core.state import State
from longhaul.envs.processes.messages import Kind
from tests.durability.simulation.world import FOREVER, World

CHOICES = 4
SPEC = EnvSpec("chain", {"obs": Part((3,))}, Discrete(CHOICES))
LATE_SECONDS = 400.0
"""Beyond every deadline."""
_MASK = (1 << 64) - 1


def mixed(number: int) -> int:
    """Return a number that looks unrelated."""
    number = (number * 6364136223846793005 + 1442695040888963407) & _MASK
    return number ^ (number >> 29)


@dataclass(frozen=True)
class Link:
    """A state of an episode; the next one follows from an action alone."""

    state: int
    steps: int
    last: int

    @classmethod
    def first(cls, seed: int) -> Link:
        """Return the beginning of an episode."""
        state = mixed(seed + 1)
        return cls(state, 0, 2 + state % 23)

    def after(self, action: int) -> Link:
        """Return the state that an action leads to."""
        return Link(mixed(self.state * CHOICES + action + 1), self.steps + 1, self.last)

    @property
    def obs(self) -> tuple[float, float, float]:
        """What is seen of it, exact as a float32."""
        return float(self.state & 0xFFFF), float(self.state >> 16 & 0xFFFF), float(self.steps)

    @property
    def reward(self) -> float:
        """The reward for coming here, exact as a float32."""
        return float(self.state % 997) / 8.0

    @property
    def is_over(self) -> bool:
        """Whether the episode ends here."""
        return self.steps >= self.last


class ChainEnv:
    """The environment; wherever it could fail, the world decides whether it does."""

    world: ClassVar[World]

    def __init__(self, tier: Tier) -> None:
        self._tier = tier
        self._link = Link.first(0)
        self._slots = StepBuffers.allocate(SPEC, 1)
        self._may_fail("construct")

    @property
    def spec(self) -> EnvSpec:
        return replace(SPEC, tier=self._tier)

    def bind(self, slots: StepBuffers) -> None:
        self._slots = slots

    def configure(self, settings: Settings) -> None:
        pass

    def reset(self, seed: int, start: Start | None) -> None:
        self._may_fail("reset")
        self._link = Link.first(seed)
        self._write()
        self._slots.reward[:] = 0.0
        self._may_fail("reset")

    def step(self, actions: Array) -> Ending | None:
        self._may_fail("step")
        self._link = self._link.after(int(actions[0]))
        self._write()
        self._may_fail("step")
        return Ending("end") if self._link.is_over else None

    def snapshot(self) -> State:
        link = self._link
        return {"state": link.state, "steps": link.steps, "last": link.last}

    def restore(self, state: State) -> None:
        self._link = Link(**state)
        self._write()

    def frame(self) -> NDArray[np.uint8] | None:
        return None

    def close(self) -> None:
        pass

    def _write(self) -> None:
        slots, link = self._slots, self._link
        slots.obs["obs"][0] = link.obs
        slots.reward[0] = link.reward
        slots.terminated[0] = link.is_over
        slots.truncated[0] = False
        slots.active[0] = True
        slots.forced[0] = False

    def _may_fail(self, place: str) -> None:
        world = self.world
        if (process := world.running) is None or not world.rate:
            return
        if world.strikes(f"slow {place}"):
            process.wait(world.chance.uniform(0.01, 0.8))
        if world.strikes(f"{place} writes nonsense and dies"):
            self._scribble()
            world.lethal += 1
            process.die()
        if world.strikes(f"{place} writes nonsense and hangs", 0.5):
            self._scribble()
            world.lethal += 1
            process.wait(FOREVER)
        if world.strikes(f"{place} takes too long", 0.5):
            world.lethal += 1
            process.wait(LATE_SECONDS)
        # An exception in a replay means that the environment is not reproducible.
        if (process.order == Kind.STEP or world.raises) and world.strikes(f"{place} raises"):
            raise RuntimeError("by chance")

    def _scribble(self) -> None:
        slots = self._slots
        slots.obs["obs"][:] = self.world.chance.random()
        slots.reward[:] = -1.0
        slots.terminated[:] = self.world.chance.random() < 0.5


@dataclass(frozen=True)
class ChainFactory:
    """Makes them in a worker."""

    tier: Tier

    def __call__(self) -> ChainEnv:
        return ChainEnv(self.tier)

    def source(self) -> SingleEnvs:
        """Return the environments."""
        return SingleEnvs(replace(SPEC, tier=self.tier), self)
