"""A small exact env that fails as told."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, Ending, SingleEnvs, Start, StepBuffers
from longhaul.core.settings import Settings
from longhaul.core.spaces import Discrete, EnvSpec, Part, Tier
from longhaul.core.state import State
from tests.faults.trouble import Trouble, spoiled

LONGEST = 12


@dataclass(frozen=True)
class WalkFactory:
    """Makes walks that look for trouble in a folder."""

    folder: str = ""
    tier: Tier = Tier.REPLAY
    longest: int = LONGEST

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec("test:walk", {"place": Part((2,))}, Discrete(3), tier=self.tier)

    def __call__(self) -> Walk:
        return Walk(self)

    def source(self) -> SingleEnvs:
        return SingleEnvs(self.spec, self)


class Walk:
    """A random walk that ends beyond 3 or after some steps."""

    def __init__(self, factory: WalkFactory) -> None:
        self._factory = factory
        self._trouble = Trouble(factory.folder)
        self._trouble.at("construct")
        self._generator = np.random.default_rng(0)
        self._position = 0.0
        self._age = 0
        self._seed = 0
        self._slots = StepBuffers.allocate(self.spec, 1)

    @property
    def spec(self) -> EnvSpec:
        return self._factory.spec

    def bind(self, slots: StepBuffers) -> None:
        self._slots = slots

    def reset(self, seed: int, start: Start | None) -> None:
        self._generator = np.random.default_rng(seed)
        self._seed, self._age = seed, 0
        self._position = float(self._generator.normal())
        self._slots.active[0] = True
        garbage = self._trouble.at("reset", seed=seed)
        self._show(spoiled(garbage, self._seen(), 0.0)[0])

    def step(self, actions: Array) -> Ending | None:
        slots = self._slots
        self._age += 1
        garbage = self._trouble.at("step", seed=self._seed, step=self._age)
        self._position += float(actions[0] - 1) + float(self._generator.normal()) / 2
        obs, reward = spoiled(garbage, self._seen(), self._position)
        self._show(obs)
        slots.reward[0] = reward
        slots.terminated[0] = abs(self._position) > 3
        slots.truncated[0] = not slots.terminated[0] and self._age >= self._factory.longest
        slots.forced[0] = False
        if garbage == "long reason":
            return Ending("x" * 10_000)
        if garbage == "odd metric":
            return Ending("over", {"score": float("nan")})
        return Ending("over") if slots.terminated[0] or slots.truncated[0] else None

    def _seen(self) -> Array:
        return np.array([self._position, self._age], np.float32)

    def _show(self, obs: Array) -> None:
        self._slots.obs["place"][0] = obs

    def configure(self, settings: Settings) -> None:
        pass

    def frame(self) -> NDArray[np.uint8] | None:
        self._trouble.at("frame")
        return np.full((2, 2, 3), self._age, np.uint8)

    def snapshot(self) -> State:
        words = self._generator.bit_generator.state["state"]
        return {
            "numbers": [self._position, self._age, self._seed],
            "words": [str(words["state"]), str(words["inc"])],
        }

    def restore(self, state: State) -> None:
        self._position, self._age, self._seed = state["numbers"]
        first, second = (int(word) for word in state["words"])
        bits = self._generator.bit_generator
        bits.state = {**bits.state, "state": {"state": first, "inc": second}}
        self._slots.active[0] = True
        self._show(self._seen())

    def close(self) -> None:
        self._trouble.at("close")
