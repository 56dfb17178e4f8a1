"""A fake env of several rows that die one by one; for the vector env's row rules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, Ending, SingleEnvs, Start, StepBuffers
from longhaul.core.seeds import generator_state, restore_generator
from longhaul.core.settings import Settings
from longhaul.core.spaces import Discrete, EnvSpec, Part, Tier
from longhaul.core.state import State

ROWS = 3
TIME_LIMIT = 9


@dataclass(frozen=True)
class SchoolFactory:
    """Makes schools; `fault` makes one that breaks a row rule."""

    tier: Tier = Tier.REPLAY
    fault: str = ""

    def __call__(self) -> School:
        return School(self)

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            "test:school",
            {"place": Part((2,)), "age": Part((1,), "int32")},
            Discrete(3),
            rows=ROWS,
            tier=self.tier,
            terms=("move", "luck"),
            measures=("drift",),
        )

    def source(self) -> SingleEnvs:
        return SingleEnvs(self.spec, self)


class School:
    """Rows drift by luck and moves, and terminate beyond 2."""

    def __init__(self, factory: SchoolFactory) -> None:
        self._factory = factory
        self._place = np.zeros(ROWS)
        self._age = 0
        self._generator = np.random.default_rng(0)
        self.slots = StepBuffers.allocate(factory.spec, ROWS)

    @property
    def spec(self) -> EnvSpec:
        return self._factory.spec

    def bind(self, slots: StepBuffers) -> None:
        self.slots = slots

    def _show(self) -> None:
        self.slots.obs["place"][:, 0] = self._place * self.slots.active
        self.slots.obs["place"][:, 1] = self.slots.active
        self.slots.obs["age"][:, 0] = self._age

    def reset(self, seed: int, start: Start | None) -> None:
        self._generator = np.random.default_rng(seed)
        self._place = self._generator.normal(size=ROWS) / 2
        self._age = 0
        self.slots.active[:] = True
        self._show()

    def step(self, actions: Array) -> Ending | None:
        slots, active = self.slots, self.slots.active.copy()
        luck = self._generator.normal(size=ROWS)
        self._place += (actions - 1) + luck / 2
        self._age += 1
        slots.terms["move"][:] = np.where(active, actions - 1, 0)
        slots.terms["luck"][:] = np.where(active, luck, 0)
        slots.reward[:] = slots.terms["move"] + slots.terms["luck"]
        slots.measures["drift"][:] = self._place
        slots.terminated[:] = active & (np.abs(self._place) > 2)
        late = self._age >= TIME_LIMIT
        slots.truncated[:] = active & ~slots.terminated & late
        slots.active[:] = active & ~slots.terminated
        if self._factory.fault == "stays":
            slots.active[:] = True
        if self._factory.fault == "silent":
            slots.truncated[:] = False
        self._show()
        if late:
            return Ending("time_limit", {"alive": float(slots.active.mean())})
        return None if slots.active.any() else Ending("all_gone", {"alive": 0.0})

    def configure(self, settings: Settings) -> None:
        pass

    def frame(self) -> NDArray[np.uint8] | None:
        return None

    def snapshot(self) -> State:
        return {
            "place": self._place.copy(),
            "age": self._age,
            "active": self.slots.active.copy(),
            "generator": _texts(generator_state(self._generator)),
        }

    def restore(self, state: State) -> None:
        self._place = state["place"].copy()
        self._age = state["age"]
        saved = state["generator"]
        words = {name: int(word) for name, word in saved["state"].items()}
        restore_generator(self._generator, {**saved, "state": words})
        self.slots.active[:] = state["active"]
        self._show()

    def close(self) -> None:
        pass


def _texts(state: State) -> State:
    """Return a generator's state with its 128-bit words as text."""
    return {**state, "state": {name: str(word) for name, word in state["state"].items()}}
