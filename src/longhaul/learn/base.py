"""The update of an on-policy learner, with everything that does not depend on the algorithm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from longhaul.core.metrics import Metrics
from longhaul.core.policy import Policy
from longhaul.core.rollout import Rollout
from longhaul.core.seeds import generator_state, restore_generator
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.learn.config import (
    GAMMA,
    LEARNING_RATE,
    TEACHER_COEF,
    TEACHER_POLICY_COEF,
    OnPolicyConfig,
)
from longhaul.learn.losses import Loss, LossTerm, value_metrics
from longhaul.learn.minibatches import SINGLE, Batches, Items, LearnerGroup, shuffled
from longhaul.learn.optimizer import GuardedOptimizer, rollout_fault
from longhaul.learn.replay.buffer import PrioritizedReplay
from longhaul.learn.replay.updates import ReplayUpdates
from longhaul.learn.returns import RewardScale
from longhaul.learn.teacher import Lessons

M = TypeVar("M")


class StepOutcome(Enum):
    """What became of optimizer steps."""

    LEARNED = auto()
    MOVED_TOO_FAR = auto()
    """The policy is too far from the one that acted."""
    LOST = auto()
    """Too many steps in a row were not finite."""


class Learner(ABC, Generic[M]):
    """Learns from each rollout in epochs of minibatches of type M; owns the policy's weights.

    An algorithm defines its minibatches and its loss. Clipping, faults, replay, reward scale,
    several processes and the saved state are the same for all.
    """

    config_class: ClassVar[type[OnPolicyConfig]] = OnPolicyConfig
    """The keys of `[learn]` for this learner."""

    def __init__(
        self,
        policy: Policy,
        config: OnPolicyConfig,
        generator: np.random.Generator,
        replay: PrioritizedReplay | None = None,
    ) -> None:
        self.policy = policy
        self.config = config
        self.generator = generator
        self.optimizer = GuardedOptimizer(policy, config)
        self.group: LearnerGroup = SINGLE
        self.rewards = RewardScale(
            normalize=config.normalize_reward,
            clip=config.reward_clip,
            center=config.center_reward,
        )
        self.replay: ReplayUpdates | None = None
        if replay is not None:
            self.replay = ReplayUpdates(policy, config, replay, self.rewards)
        self.lessons: Lessons | None = None
        self.lesson: Tensor | None = None
        """What the teacher would do in each step of the present rollout, [T, N, choices]."""
        self.fits: list[tuple[Tensor, Tensor]] = []
        """Values and targets, each [n], from before the weights learned from this rollout."""

    @property
    def device(self) -> torch.device:
        """Where the policy's weights are."""
        return next(self.policy.parameters()).device

    @abstractmethod
    def prepare(self, rollout: Rollout, reward: Tensor, settings: Settings) -> Batches[M]:
        """Return the rollout with scaled rewards [T, N], ready to be split into minibatches."""

    @abstractmethod
    def learn_minibatch(
        self, minibatch: M, settings: Settings, *, share: float
    ) -> Mapping[str, Tensor]:
        """Add the gradient of a minibatch's loss, times `share`, to that of the optimizer step.

        Pass loss and measurements, by the names of metrics, to `self.optimizer.record`; return the
        measurements.
        """

    def begin_epoch(self, epoch: int) -> None:
        """Prepare for a pass over the rollout."""

    def sit_out(self) -> None:
        """Take part in what `learn_minibatch` exchanges, for a minibatch without own steps."""

    def has_moved_too_far(self, measures: Mapping[str, Tensor]) -> bool:
        """Whether to end the epochs; `measures` are those of the minibatch, if it had a part."""
        return False

    def metrics(self, settings: Settings) -> Metrics:
        """Return further metrics of the algorithm."""
        return {}

    def join(self, group: LearnerGroup) -> None:
        """Learn as one of a group; measurements then cover this learner's part only."""
        self.group = self.optimizer.group = group

    def update(self, rollout: Rollout, settings: Settings) -> Metrics:
        """Learn from one rollout; the weights are finite afterwards."""
        if (fault := rollout_fault(rollout)) is not None:
            return self.optimizer.refuse(fault)
        self.fits = []
        self.lesson = self._lesson(rollout, settings)
        reward = self.rewards.scaled(rollout, gamma=settings[GAMMA])
        batches = self.prepare(rollout, reward, settings)
        if self.replay is not None:
            self.replay.begin(rollout, settings)
        self.optimizer.begin(settings[LEARNING_RATE])
        stopped_in = self.run_epochs(batches, settings)
        self.policy.observe(rollout.obs, rollout.active)
        metrics = self.optimizer.finish()
        if self.replay is not None:
            metrics |= self.replay.metrics()
        metrics |= self.metrics(settings)
        if stopped_in:
            metrics["train/epochs_run"] = float(stopped_in)
        return metrics | value_metrics(self.fits)

    def _lesson(self, rollout: Rollout, settings: Settings) -> Tensor | None:
        if self.lessons is None:
            return None
        # Who remembers must see every rollout.
        if settings[TEACHER_COEF] == 0 and not self.lessons.teacher.recurrent:
            return None
        return self.lessons.of(rollout)

    def taught(
        self,
        policy_loss: LossTerm,
        lesson: Tensor | None,
        logits: Tensor | None,
        settings: Settings,
    ) -> Loss:
        """Return the policy's loss, and beside it the distance from the teacher if there is one.

        `lesson` and the policy's `logits` are both [n, choices].
        """
        if self.lessons is None:
            return Loss((policy_loss,))
        loss = Loss((settings[TEACHER_POLICY_COEF] * policy_loss,))
        if lesson is None or logits is None:
            return loss
        return loss + settings[TEACHER_COEF] * self.lessons.term(lesson, logits)

    def run_epochs(self, batches: Batches[M], settings: Settings) -> int:
        """Learn from all minibatches; return the epoch that ended early, counted from 1, else 0."""
        config = self.config
        for epoch in range(config.n_epochs):
            self.begin_epoch(epoch)
            steps = shuffled(
                batches,
                self.generator,
                minibatch_size=config.minibatch_size,
                accumulate=config.accumulate,
            )
            outcome = self.learn_steps(batches, steps, settings)
            if outcome is not StepOutcome.LEARNED:
                return epoch + 1 if outcome is StepOutcome.MOVED_TOO_FAR else 0
        return 0

    def learn_steps(
        self, batches: Batches[M], steps: Iterable[Sequence[Items]], settings: Settings
    ) -> StepOutcome:
        """Take optimizer steps, each from its minibatches."""
        for minibatches in steps:
            outcome = self.learn_step(batches, minibatches, settings)
            if outcome is not StepOutcome.LEARNED:
                return outcome
        return StepOutcome.LEARNED

    def learn_step(
        self, batches: Batches[M], minibatches: Sequence[Items], settings: Settings
    ) -> StepOutcome:
        """Take one optimizer step from these minibatches."""
        if self.replay is not None:
            self.replay.backward(self.optimizer, settings)
        total = sum(int(batches.counts[items].sum()) for items in minibatches)
        for items in minibatches:
            own = self.group.part(items)
            measures: Mapping[str, Tensor] = {}
            if len(own):
                share = int(batches.counts[own].sum()) / total
                measures = self.learn_minibatch(batches.take(own), settings, share=share)
            else:
                self.sit_out()
            if self.has_moved_too_far(measures):
                return StepOutcome.MOVED_TOO_FAR
        return StepOutcome.LEARNED if self.optimizer.step() else StepOutcome.LOST

    def state_dict(self) -> State:
        """Return weights, optimizer, generator, reward scale and counts."""
        return {
            **self.optimizer.state_dict(),
            "generator": generator_state(self.generator),
            "rewards": self.rewards.state_dict(),
            **({"teacher": self.lessons.teacher.state_dict()} if self.lessons else {}),
        }

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state."""
        self.optimizer.load_state_dict(state)
        restore_generator(self.generator, state["generator"])
        self.rewards.load_state_dict(state["rewards"])
        if self.lessons and "teacher" in state:
            self.lessons.teacher.load_state_dict(state["teacher"])
