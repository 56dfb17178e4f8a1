"""Games for tests: short ones, played by keys that were drawn once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, Ending, Env, StepBuffers
from longhaul.tasks.nethack.options import NetHackGameOptions
from longhaul.tasks.nethack.source import NetHackFactory
from longhaul.tasks.nethack.vocabulary import ACTION_COUNT


def drawn_actions(count: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, ACTION_COUNT, count)


@dataclass(frozen=True, slots=True)
class Opened:
    env: Env
    slots: StepBuffers

    def play(self, seed: int, actions: Array) -> Iterator[Ending | None]:
        """Begin the game of a seed and take the actions until it is over."""
        self.slots.reward[:] = 0  # of the game before; a reset pays nothing
        self.env.reset(seed, None)
        yield None
        for action in actions:
            ending = self.env.step(np.array([action]))
            yield ending
            if ending is not None:
                return

    def shown(self) -> dict[str, Array]:
        found = {name: part[0].copy() for name, part in self.slots.obs.items()}
        if self.slots.mask is not None:
            found["mask"] = self.slots.mask[0].copy()
        found["reward"] = self.slots.reward.copy()
        return found


def opened(options: NetHackGameOptions | None = None, *, follows_settings: bool = True) -> Opened:
    env = NetHackFactory(options or NetHackGameOptions(), follows_settings=follows_settings)()
    slots = StepBuffers.allocate(env.spec, 1)
    env.bind(slots)
    return Opened(env, slots)
