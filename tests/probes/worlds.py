"""Tiny environments whose right answers are known, one difficulty each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, Ending, SingleEnvs, Start, StepBuffers
from longhaul.core.settings import Settings
from longhaul.core.spaces import ActionSpec, Continuous, Discrete, EnvSpec, MultiDiscrete, Part
from longhaul.core.state import State


class World(ABC):
    """One row by default; a subclass says what is shown, paid and when it ends."""

    size: int = 1
    action: ActionSpec = Discrete(2)
    rows: int = 1
    has_masks: bool = False

    def __init__(self) -> None:
        self.slots = StepBuffers.allocate(self.spec, self.rows)
        self.random = np.random.default_rng(0)
        self.now = 0

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            f"probe:{type(self).__name__}",
            {"obs": Part((self.size,))},
            self.action,
            rows=self.rows,
            has_masks=self.has_masks,
        )

    @abstractmethod
    def show(self) -> None:
        """Write the observation, and the mask if there is one."""

    @abstractmethod
    def answer(self, actions: Array) -> bool:
        """Write the reward and the ends; tell whether the episode is over."""

    def bind(self, slots: StepBuffers) -> None:
        self.slots = slots

    def reset(self, seed: int, start: Start | None) -> None:
        self.random = np.random.default_rng(seed)
        self.now = 0
        self.slots.active[:] = True
        self.show()

    def step(self, actions: Array) -> Ending | None:
        self.slots.reward[:] = 0.0
        self.slots.terminated[:] = False
        self.slots.truncated[:] = False
        self.now += 1
        over = self.answer(actions)
        self.show()
        return Ending("over") if over else None

    def finish(self, reward: float) -> bool:
        """Pay and terminate the one row."""
        self.slots.reward[0] = reward
        self.slots.terminated[0] = True
        return True

    def configure(self, settings: Settings) -> None:
        """Nothing can be set."""
        assert isinstance(settings, Settings)

    def frame(self) -> NDArray[np.uint8] | None:
        return None

    def snapshot(self) -> State:
        raise NotImplementedError

    def restore(self, state: State) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is held but the slots."""
        self.slots = StepBuffers.allocate(self.spec, self.rows)


class Signed(World):
    """Shows -1 or 1, drawn by the seed, and ends after one step."""

    sign = 1.0

    def reset(self, seed: int, start: Start | None) -> None:
        self.sign = 1.0 if np.random.default_rng(seed).random() < 0.5 else -1.0
        super().reset(seed, start)

    def show(self) -> None:
        self.slots.obs["obs"][:] = self.sign


class ConstantReward(World):
    """One step, the same observation, a reward of 1: only the value has something to learn."""

    def show(self) -> None:
        self.slots.obs["obs"][:] = 0.5

    def answer(self, actions: Array) -> bool:
        return self.finish(1.0)


class ShownReward(Signed):
    """One step that pays what is shown."""

    def answer(self, actions: Array) -> bool:
        return self.finish(self.sign)


class DelayedReward(World):
    """Two steps, 0 then 1; the observation is which step it is."""

    def show(self) -> None:
        self.slots.obs["obs"][:] = float(self.now)

    def answer(self, actions: Array) -> bool:
        return self.finish(1.0) if self.now == 2 else False


class PaidAction(ConstantReward):
    """One step; action 1 pays 1, action 0 pays -1."""

    def answer(self, actions: Array) -> bool:
        return self.finish(2.0 * float(actions[0]) - 1.0)


class ShownAction(Signed):
    """One step; the action that fits the sign pays 1, the other -1."""

    def answer(self, actions: Array) -> bool:
        return self.finish(1.0 if bool(actions[0]) == (self.sign > 0) else -1.0)


class Steady(World):
    """Always the same to look at, pays 1 each step, and is ended after 5."""

    limit = 5
    terminates = False

    def show(self) -> None:
        self.slots.obs["obs"][:] = 1.0

    def answer(self, actions: Array) -> bool:
        self.slots.reward[:] = 1.0
        over = self.now == self.limit
        self.slots.terminated[:] = over and self.terminates
        self.slots.truncated[:] = over and not self.terminates
        return over


class Countdown(Steady):
    """Like `Steady`, but shows the step and really ends: its values are finite sums."""

    terminates = True

    def show(self) -> None:
        self.slots.obs["obs"][:] = self.now / self.limit


class ForbiddenFruit(Signed):
    """Of three actions the one that pays most is always forbidden; which, is shown."""

    action = Discrete(3)
    has_masks = True

    def show(self) -> None:
        super().show()
        assert self.slots.mask is not None
        self.slots.mask[:] = True
        self.slots.mask[0, self.forbidden] = False

    @property
    def forbidden(self) -> int:
        return 0 if self.sign > 0 else 2

    def answer(self, actions: Array) -> bool:
        """Pay 10 for the forbidden one, 1 for the middle one, 0 for the other."""
        taken = int(actions[0])
        return self.finish(10.0 if taken == self.forbidden else float(taken == 1))


class DyingRow(World):
    """Two rows; the second dies after one step and then shows what would mislead a learner.

    The first is paid for action 1 in each of 6 steps. The absent row shows the same observation,
    so whatever were learned from its silence would spoil the first row's value.
    """

    rows = 2
    limit = 6

    def show(self) -> None:
        self.slots.obs["obs"][:] = 1.0

    def answer(self, actions: Array) -> bool:
        self.slots.reward[0] = float(actions[0] == 1)
        if self.now == 1:
            self.slots.reward[1] = float(actions[1] == 1)
            self.slots.terminated[1] = True
            self.slots.active[1] = False
        over = self.now == self.limit
        self.slots.terminated[0] = over
        return over


class ForcedHand(ConstantReward):
    """Half of the actions are replaced by the bad one and marked so.

    A forced step pays a hundred, so that it would teach the recorded action if it taught at all.
    """

    def answer(self, actions: Array) -> bool:
        forced = bool(self.random.random() < 0.5)
        self.slots.forced[0] = forced
        if forced:
            return self.finish(100.0 * float(actions[0] == 0))
        return self.finish(float(actions[0] == 1))


class Target(Signed):
    """One step; the nearer the action to a point given by the sign, the better."""

    action = Continuous((-2.0, -2.0), (2.0, 2.0))

    @property
    def point(self) -> Array:
        return np.array([0.5 * self.sign, -0.3])

    def answer(self, actions: Array) -> bool:
        return self.finish(-float(np.square(actions[0] - self.point).sum()))


class TwoChoices(Signed):
    """One step with two choices at once, each paid on its own and by the sign."""

    action = MultiDiscrete((2, 3))

    @property
    def right(self) -> tuple[int, int]:
        return (1, 2) if self.sign > 0 else (0, 1)

    def answer(self, actions: Array) -> bool:
        return self.finish(0.5 * float((actions[0] == self.right).sum()))


@dataclass(frozen=True)
class WorldFactory:
    """Makes envs of one world."""

    world: Callable[[], World]

    def __call__(self) -> World:
        return self.world()

    def source(self) -> SingleEnvs:
        return SingleEnvs(self.world().spec, self)
