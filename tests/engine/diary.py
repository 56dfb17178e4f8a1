"""An env and a policy whose every number can be computed by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from longhaul.core.env import Array, Ending, SingleEnvs, Start, StepBuffers
from longhaul.core.policy import Act, ActionEvaluation, Generators, Policy
from longhaul.core.rollout import Memory, Sequences, TensorTree
from longhaul.core.seeds import DerivedSeeds, EpisodeSeeds, Seeds
from longhaul.core.settings import Setting, Settings
from longhaul.core.spaces import Discrete, EnvSpec, Part, Tier
from longhaul.core.state import State
from longhaul.envs.serial import SerialVectorEnv
from longhaul.nets.heads import uniform_like

ROWS = 2
CHOICES = 4
COST = 0.5
TILT = Setting("diary.tilt", 0.0, "added to every observation, from the next reset on")
SETTINGS = Settings([TILT])
SEEDS = DerivedSeeds(Seeds(5))


@dataclass(frozen=True)
class DiaryFactory:
    """Makes diaries of `rows` rows."""

    rows: int = ROWS

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            "test:diary",
            {"page": Part((3,)), "step": Part((), "int32")},
            Discrete(CHOICES),
            rows=self.rows,
            tier=Tier.SNAPSHOT,
            has_masks=True,
            terms=("bonus", "cost"),
            measures=("age",),
        )

    def __call__(self) -> Diary:
        return Diary(self)

    def source(self) -> SingleEnvs:
        return SingleEnvs(self.spec, self)


def length_of(seed: int) -> int:
    """Return how long the episode of a seed is, whatever is done in it."""
    return 2 + seed % 7


class Diary:
    """Shows its seed, row and step; everything else follows from these and the actions.

    Episodes of even seeds are terminated, those of odd seeds truncated, those of every fourth both.
    In every third the last row leaves after two steps. Every fourth action of a row is not the
    policy's own.
    """

    def __init__(self, factory: DiaryFactory) -> None:
        self.spec = factory.spec
        self.slots = StepBuffers.allocate(self.spec, factory.rows)
        self.seed = 0
        self.now = 0
        self.tilt = self.next_tilt = 0.0
        self.closed = False

    def bind(self, slots: StepBuffers) -> None:
        self.slots = slots

    def configure(self, settings: Settings) -> None:
        if TILT.name in settings:
            self.next_tilt = settings[TILT]

    def reset(self, seed: int, start: Start | None) -> None:
        self.seed, self.now, self.tilt = seed, 0, self.next_tilt
        self.slots.active[:] = True
        self._show()

    def step(self, actions: Array) -> Ending | None:
        slots, rows = self.slots, np.arange(self.spec.rows)
        was_active = slots.active.copy()
        slots.terms["bonus"][:] = np.where(was_active, actions, 0)
        slots.terms["cost"][:] = np.where(was_active, -COST, 0)
        slots.reward[:] = slots.terms["bonus"] + slots.terms["cost"]
        slots.forced[:] = was_active & ((self.now + rows) % 4 == 3)
        self.now += 1
        slots.measures["age"][:] = self.now
        over = self.now == length_of(self.seed)
        goes_early = self.seed % 3 == 0 and self.now == 2 and len(rows) > 1 and not over
        leaves = goes_early & (rows == len(rows) - 1)
        ends = was_active & over
        slots.terminated[:] = was_active & (leaves | (ends & (self.seed % 2 == 0)))
        slots.truncated[:] = ends & (self.seed % 4 != 2)
        slots.active[:] = was_active & ~slots.terminated
        self._show()
        return Ending("over", {"odd": float(self.seed % 2)}) if over else None

    def _show(self) -> None:
        slots = self.slots
        rows = np.arange(self.spec.rows)
        slots.obs["page"][:, 0] = (self.seed % 100) + self.tilt
        slots.obs["page"][:, 1] = rows
        slots.obs["page"][:, 2] = self.now
        slots.obs["page"][~slots.active] = 0.0
        slots.obs["step"][:] = self.now
        assert slots.mask is not None
        slots.mask[:] = True
        slots.mask[rows, (self.seed + self.now + rows) % CHOICES] = False

    def frame(self) -> NDArray[np.uint8] | None:
        return None

    def snapshot(self) -> State:
        return {
            "numbers": [self.seed, self.now],
            "tilts": [self.tilt, self.next_tilt],
            "active": self.slots.active.copy(),
        }

    def restore(self, state: State) -> None:
        self.seed, self.now = state["numbers"]
        self.tilt, self.next_tilt = state["tilts"]
        self.slots.active[:] = state["active"]
        self._show()

    def close(self) -> None:
        self.closed = True


def diaries(count: int = 3, *, rows: int = ROWS, seeds: EpisodeSeeds = SEEDS) -> SerialVectorEnv:
    return SerialVectorEnv(DiaryFactory(rows).source(), count, seeds)


def worth(page: Tensor, age: Tensor, version: Tensor) -> Tensor:
    """Return the diary policy's value: what it sees, its memory and its weights side by side."""
    return page[..., 0] + 1000.0 * page[..., 1] + 0.01 * page[..., 2] + 10_000.0 * age + version


def log_probability(age: Tensor, version: Tensor) -> Tensor:
    return -(age + 100.0 * version)


class DiaryPolicy(Policy):
    """Remembers how many steps of the episode it saw; its one weight counts updates."""

    def __init__(self, version: float = 0.0) -> None:
        super().__init__()
        self.version = nn.Parameter(torch.tensor(version))
        self.noise_seeds: list[int] = []

    @property
    def recurrent(self) -> bool:
        return True

    def initial_state(self, rows: int) -> Memory:
        return {"age": torch.zeros(rows)}

    def act(
        self,
        obs: TensorTree,
        memory: Memory,
        settings: Settings,
        *,
        mask: Tensor | None = None,
        generator: Generators | None = None,
    ) -> Act:
        """Take the first allowed action after the one that the page or the generator names."""
        assert mask is not None
        rows, choices = mask.shape
        wished = obs["step"].long() % choices
        if generator is not None:
            wished = (uniform_like(torch.zeros(rows), generator) * choices).long()
        order = (torch.arange(choices) + wished[:, None]) % choices
        allowed = mask.gather(1, order).long().argmax(1, keepdim=True)
        return Act(
            order.gather(1, allowed).squeeze(1),
            log_probability(memory["age"], self.version),
            worth(obs["page"], memory["age"], self.version),
            {"age": memory["age"] + 1.0},
        )

    def value(self, obs: TensorTree, memory: Memory, settings: Settings) -> Tensor:
        return worth(obs["page"], memory["age"], self.version)

    def evaluate_actions(self, sequences: Sequences, settings: Settings) -> ActionEvaluation:
        raise NotImplementedError

    def set_noise(self, seed: int) -> None:
        self.noise_seeds.append(seed)
