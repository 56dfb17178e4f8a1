"""Remembering: a cue is shown once and asked for after a delay.

The first observation shows one of `cues` cues; then nothing but noise for `delay` steps; then the
question, when the action must name the cue. A right answer pays 1, a wrong one 0. A policy that
remembers gets 1.0 an episode; one without memory gets at most 1 / cues on average.
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


@dataclass(frozen=True, slots=True)
class RecallFactory:
    """Makes recall envs; picklable."""

    cues: int = 4
    delay: int = 8

    @property
    def spec(self) -> EnvSpec:
        """One-hot cue, question flag, and one distracting number."""
        return EnvSpec(
            id=f"recall-{self.cues}-{self.delay}",
            observation={"obs": Part((self.cues + 2,))},
            action=Discrete(self.cues),
            tier=Tier.SNAPSHOT,
        )

    def __call__(self) -> RecallEnv:
        """Return a new env."""
        return RecallEnv(self)


class RecallEnv:
    """One row that has to remember."""

    def __init__(self, factory: RecallFactory) -> None:
        self._factory = factory
        self.spec = factory.spec
        self._slots = StepBuffers.allocate(self.spec, 1)
        self._random = np.random.default_rng(0)
        self._cue = 0
        self._step = 0

    def bind(self, slots: StepBuffers) -> None:
        """Write into these views."""
        self._slots = slots

    def reset(self, seed: int, start: Start | None) -> None:
        """Show the cue."""
        self._random = np.random.default_rng(seed)
        self._cue = int(self._random.integers(self._factory.cues))
        self._step = 0
        self._show()

    def step(self, actions: Array) -> Ending | None:
        """Wait, or answer the question."""
        asked = self._step == self._factory.delay + 1
        right = asked and int(actions[0]) == self._cue
        self._step += 1
        self._slots.reward[0] = float(right)
        self._slots.terminated[0] = asked
        self._slots.truncated[0] = False
        self._show()
        return Ending("answered", {"right": float(right)}) if asked else None

    def configure(self, settings: Settings) -> None:
        """Nothing can be set."""

    def frame(self) -> NDArray[np.uint8] | None:
        """There is nothing to see."""
        return None

    def snapshot(self) -> State:
        """Return cue, step, generator and what is shown."""
        return {
            "cue": self._cue,
            "step": self._step,
            "random": generator_state(self._random),
            "obs": self._slots.obs["obs"].copy(),
        }

    def restore(self, state: State) -> None:
        """Continue from a snapshot."""
        self._cue = int(state["cue"])
        self._step = int(state["step"])
        restore_generator(self._random, state["random"])
        self._slots.obs["obs"][...] = state["obs"]

    def close(self) -> None:
        """Nothing to free."""

    def _show(self) -> None:
        cues = self._factory.cues
        obs = self._slots.obs["obs"][0]
        obs[:] = 0.0
        if self._step == 0:
            obs[self._cue] = 1.0
        obs[cues] = float(self._step == self._factory.delay + 1)
        obs[cues + 1] = self._random.standard_normal() * 0.3
