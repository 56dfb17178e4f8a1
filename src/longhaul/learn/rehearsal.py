"""Learning again from what a replay kept, beside the rollout of the day."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longhaul.core.metrics import Metrics
from longhaul.core.policy import Policy
from longhaul.core.rollout import Rollout
from longhaul.core.settings import Settings
from longhaul.learn.advantage import course_of
from longhaul.learn.config import LearnConfig
from longhaul.learn.losses import normalised, value_error, vtrace_policy_gradient
from longhaul.learn.normalise import RewardScale
from longhaul.learn.optimise import Descent, Pull
from longhaul.learn.replay import LEAST_PRIORITY, Replay
from longhaul.learn.settings import (
    REPLAY_ALPHA,
    REPLAY_BETA,
    REPLAY_POLICY_WEIGHT,
    REPLAY_WEIGHT,
    VALUE_WEIGHT,
)
from longhaul.learn.trace import Lesson, Tracer


class Rehearsal:
    """Adds the V-trace loss of replayed sequences to a learner's first steps of a rollout.

    Values, targets and importance weights always come from the present weights; of the past only
    what happened is kept, and how likely the acting policy found its actions.
    """

    def __init__(
        self, policy: Policy, config: LearnConfig, replay: Replay, rewards: RewardScale
    ) -> None:
        self._policy = policy
        self._normalise_advantage = config.normalise_advantage
        self._peak = config.replay.peak
        self._replay = replay
        self._rewards = rewards
        self._tracer = Tracer(policy, config)
        self._left = 0
        self._noise_seed = 0

    def begin(self, rollout: Rollout, settings: Settings) -> None:
        """Keep a rollout, whole, and see whether samples are due beside it."""
        pieces = self._replay.pieces(rollout, recurrent=self._policy.recurrent)
        if pieces is not None:
            self._replay.push(pieces, self._first_priorities(pieces, settings))
        self._left = self._replay.due()
        self._noise_seed = rollout.noise_seed

    def add(self, descent: Descent, settings: Settings) -> None:
        """Add the gradient of one sample to the coming step, if one is due."""
        if self._left == 0:
            return
        self._left -= 1
        drawn = self._replay.draw(
            alpha=settings[REPLAY_ALPHA],
            beta=settings[REPLAY_BETA],
            noise_seed=self._noise_seed,
        )
        rollout = drawn.rollout
        lesson = Lesson.of(rollout, self._rewards.applied(rollout.reward), settings)
        traced = self._tracer.trace(lesson, torch.arange(rollout.rows))
        steps = traced.flat()
        error = (traced.vtrace.target - traced.value.detach()).abs()
        self._replay.revalue(drawn.places, self._priorities(error, traced.trainable))
        if steps.places.numel() == 0:
            return
        # [L, B] flattened: the row is the remainder.
        weight = drawn.weight.to(steps.value.device)[steps.places % rollout.rows]
        advantage = normalised(steps.advantage) if self._normalise_advantage else steps.advantage
        policy_weight = settings[REPLAY_WEIGHT] * settings[REPLAY_POLICY_WEIGHT]
        value_weight = settings[REPLAY_WEIGHT] * settings[VALUE_WEIGHT]
        pulls = [
            Pull(
                "replay/policy_loss",
                steps.log_prob,
                vtrace_policy_gradient(
                    steps.log_prob, weight * steps.rho, advantage, scale=policy_weight
                ),
                policy_weight,
            ),
            Pull(
                "replay/value_loss",
                steps.value,
                value_error(steps.value, steps.target, scale=value_weight, weight=weight),
                value_weight,
            ),
        ]
        descent.add(
            pulls,
            {
                "replay/weight_mean": weight,
                "replay/rho_mean": steps.rho,
                "replay/rho_clip_fraction": steps.log_ratio.exp() > self._tracer.limits.rho_bar,
                "replay/td_error": error[traced.trainable],
            },
        )

    def metrics(self) -> Metrics:
        """Return what the replay has to tell."""
        return self._replay.metrics()

    def _first_priorities(self, pieces: Rollout, settings: Settings) -> NDArray[np.float64]:
        """Return what `add` would find by the weights that acted, from what they recorded."""
        course = course_of(
            pieces,
            reward=self._rewards.applied(pieces.reward),
            truncation_value=pieces.truncations.value,
            last_value=pieces.last.value,
        )
        on_policy = torch.zeros_like(pieces.log_prob)
        target = self._tracer.targets(course, pieces.value, on_policy, settings).target
        return self._priorities((target - pieces.value).abs(), pieces.trainable)

    def _priorities(self, error: Tensor, trainable: Tensor) -> NDArray[np.float64]:
        """Return each row's priority: its largest and its mean error; 0 with nothing to learn."""
        errors = error.detach().cpu().numpy().astype(np.float64)
        counts = trainable.cpu().numpy()
        number = counts.sum(0)
        errors = np.where(counts, errors, 0.0)
        mixed = self._peak * errors.max(0) + (1 - self._peak) * errors.sum(0) / np.maximum(
            number, 1
        )
        return np.where(number > 0, mixed + LEAST_PRIORITY, 0.0)
