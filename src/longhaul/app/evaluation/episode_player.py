"""Playing one episode of an evaluation again, step by step, to watch it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longhaul.core.env import (
    Array,
    BatchedEnv,
    BatchedEnvs,
    Bools,
    Ending,
    Env,
    EnvSource,
    Floats,
    Observation,
    Start,
    StepBuffers,
)
from longhaul.core.policy import NO_NOISE, Act, Generators, Policy
from longhaul.core.rollout import Memory
from longhaul.core.settings import Settings

Picture = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Which episode is played, and beside how many others the policy acted in it."""

    seed: int
    start: Start | None = None
    company: int = 1
    """How many envs acted at once; sums of floats depend on the shape of the array."""
    place: int = 0
    """Which of them this one was."""
    draws: int | None = None
    """The seed of the drawn actions; None takes the most likely ones."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What can be shown after one step; arrays are copies."""

    step: int
    action: Array | None  # [rows, ...] that led here; None before the first step
    value: Floats  # [rows], the policy's estimate of what is to come
    active: Bools  # [rows]
    reward: float  # of the last step, the mean over rows
    episode_return: float
    terms: dict[str, float]  # of the episode so far, means over rows
    shown: dict[str, Array] = field(default_factory=dict)  # [rows] or [rows, k], by the policy
    ending: Ending | None = None


class Replay:
    """One episode, a moment at a time, with a picture of the present one on request."""

    def __init__(
        self, source: EnvSource, policy: Policy, settings: Settings, scenario: Scenario
    ) -> None:
        self.spec = source.spec
        self._env = _open(source)
        self._slots = StepBuffers.allocate(self.spec, self.spec.rows)
        self._env.bind(self._slots)
        self._policy = policy
        self._settings = settings
        self._scenario = scenario
        self._device = next(policy.parameters()).device

    def picture(self) -> Picture | None:
        """Return the present picture, or None if the env draws none."""
        return self._env.frame()

    def observation(self) -> Observation:
        """Return a copy of what all rows see at present, [rows, ...]."""
        return {name: part.copy() for name, part in self._slots.obs.items()}

    def mask(self) -> Bools | None:
        """Return a copy of what all rows may choose at present [rows, choices], None if all."""
        return None if self._slots.mask is None else self._slots.mask.copy()

    def close(self) -> None:
        """Free the simulator."""
        self._env.close()

    def moments(self) -> Iterator[Moment]:
        """Yield the start of the episode, then every step of it."""
        env, policy = self._env, self._policy
        generator = self._generators()
        tally = _Tally(self._slots, self.spec.rows)
        with torch.inference_mode():
            env.configure(self._settings)
            env.reset(self._scenario.seed, self._scenario.start)
            policy.set_noise(NO_NOISE)
            act = self._act(
                policy.initial_state(self.spec.rows * self._scenario.company), generator
            )
            yield tally.moment(self._own(act), None, None)
            ending = None
            while ending is None:
                action = self._own(act).action.cpu().numpy()
                ending = env.step(action)
                tally.count()
                act = self._act(act.memory, generator)
                yield tally.moment(self._own(act), action, ending)

    def _generators(self) -> Generators | None:
        """Return the generators of drawn actions: for all envs the same as for this one."""
        draws, company = self._scenario.draws, self._scenario.company
        if draws is None:
            return None
        return [torch.Generator(self._device).manual_seed(draws) for _ in range(company)]

    def _act(self, memory: Memory, generator: Generators | None) -> Act:
        """Act on this env's observation, repeated for as many envs as the evaluation had."""
        slots = self._slots
        mask = None if slots.mask is None else self._repeated(slots.mask)
        return self._policy.act(
            {name: self._repeated(part) for name, part in slots.obs.items()},
            memory,
            self._settings,
            mask=mask,
            generator=generator,
        )

    def _repeated(self, part: Array) -> Tensor:
        copies = np.concatenate([part] * self._scenario.company)
        return torch.from_numpy(copies).to(self._device)

    def _own(self, act: Act) -> Act:
        place = self._scenario.place
        rows = slice(place * self.spec.rows, (place + 1) * self.spec.rows)
        return Act(
            act.action[rows],
            act.log_prob[rows],
            act.value[rows],
            act.memory,
            {name: shown[rows] for name, shown in act.shown.items()},
        )


class _Tally:
    """Adds up rewards and terms over an episode, as the ledger of a vector env does."""

    def __init__(self, slots: StepBuffers, rows: int) -> None:
        self._slots = slots
        self._steps = 0
        self._returns = np.zeros(rows, np.float64)
        self._terms = dict.fromkeys(slots.terms, 0.0)

    def count(self) -> None:
        """Take in the step that was just made."""
        self._steps += 1
        self._returns += self._slots.reward
        for name, term in self._slots.terms.items():
            self._terms[name] += float(term.mean())

    def moment(self, act: Act, action: Array | None, ending: Ending | None) -> Moment:
        """Return the present moment."""
        return Moment(
            step=self._steps,
            action=action,
            value=act.value.float().cpu().numpy(),
            active=self._slots.active.copy(),
            reward=float(self._slots.reward.mean()) if self._steps else 0.0,
            episode_return=float(self._returns.mean()),
            terms=dict(self._terms),
            shown={name: shown.cpu().numpy() for name, shown in act.shown.items()},
            ending=ending,
        )


class _OneOfBatch:
    """A batch of one env, with the methods of a single one."""

    def __init__(self, batch: BatchedEnv) -> None:
        self._batch = batch
        self.bind = batch.bind
        self.configure = batch.configure
        self.close = batch.close

    def reset(self, seed: int, start: Start | None) -> None:
        self._batch.reset(np.zeros(1, np.int64), np.array([seed], np.int64), [start])

    def step(self, actions: Array) -> Ending | None:
        self._batch.step(0, 1, actions)
        return self._batch.ending(0) if self._batch.over[0] else None

    def frame(self) -> Picture | None:
        return self._batch.frame(0)


def _open(source: EnvSource) -> Env | _OneOfBatch:
    """Return an env that is not reset at the end of its episode, whose end can be seen."""
    if isinstance(source, BatchedEnvs):
        return _OneOfBatch(source.make(1))
    return (source.make_drawn or source.make)()
