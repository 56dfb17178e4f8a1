"""Replay updates mixed into each on-policy update."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longhaul.core.errors import ConfigError
from longhaul.core.metrics import Metrics
from longhaul.core.policy import Policy
from longhaul.core.rollout import Rollout
from longhaul.core.settings import Settings
from longhaul.core.spaces import DURATION
from longhaul.learn.config import (
    REPLAY_ALPHA,
    REPLAY_BETA,
    REPLAY_POLICY_WEIGHT,
    REPLAY_WEIGHT,
    VF_COEF,
    OnPolicyConfig,
)
from longhaul.learn.losses import normalized, value_error, vtrace_policy_gradient
from longhaul.learn.minibatches import VTraceInputs, vtrace_returns
from longhaul.learn.optimizer import GuardedOptimizer
from longhaul.learn.replay.buffer import LEAST_PRIORITY, PrioritizedReplay
from longhaul.learn.returns import RewardScale, Trajectory


class ReplayUpdates:
    """Adds the V-trace loss of replayed sequences to a learner's first steps of a rollout.

    Values, targets and importance weights are computed with the present weights. Stored are only
    the transitions and the log-probabilities of the acting policy.
    """

    def __init__(
        self,
        policy: Policy,
        config: OnPolicyConfig,
        replay: PrioritizedReplay,
        rewards: RewardScale,
    ) -> None:
        self._policy = policy
        self._config = config
        self._replay = replay
        self._rewards = rewards
        self._left = 0
        self._noise_seed = 0

    def begin(self, rollout: Rollout, settings: Settings) -> None:
        """Store a rollout, and decide how many samples to learn from beside it."""
        if DURATION in rollout.measures:
            raise ConfigError(
                "learn.replay.enabled = true keeps no durations, and this environment's steps "
                "differ in length; leave learn.replay.enabled = false"
            )
        pieces = self._replay.pieces(rollout, recurrent=self._policy.recurrent)
        self._replay.push(pieces, self._first_priorities(pieces, settings))
        self._left = self._replay.due()
        self._noise_seed = rollout.noise_seed

    def backward(self, optimizer: GuardedOptimizer, settings: Settings) -> None:
        """Add the gradient of one sample to that of the coming step, if one is due."""
        if self._left == 0:
            return
        self._left -= 1
        drawn = self._replay.draw(
            alpha=settings[REPLAY_ALPHA], beta=settings[REPLAY_BETA], noise_seed=self._noise_seed
        )
        rollout = drawn.rollout
        reward = self._rewards.applied(rollout.reward)
        inputs = VTraceInputs.of(self._policy, self._config, rollout, reward, settings)
        steps = inputs.take(np.arange(rollout.rows))
        self._replay.revalue(drawn.places, self._priorities(steps.error, steps.trainable))
        if steps.places.numel() == 0:
            return
        # [L, B] flattened: the row is the remainder.
        weight = drawn.weight.to(steps.value.device)[steps.places % rollout.rows]
        advantage = steps.advantage
        if self._config.normalize_advantage:
            advantage = normalized(advantage)
        # w (-rho A log pi(a|x)) and w (V(x) - v)^2, w = (n P)^-beta of the sequence
        policy_loss = vtrace_policy_gradient(
            steps.log_prob, weight * steps.rho, advantage, name="replay/policy_loss"
        )
        value_loss = value_error(steps.value, steps.target, weight, name="replay/value_loss")
        replay_weight = settings[REPLAY_WEIGHT]
        loss = (replay_weight * settings[REPLAY_POLICY_WEIGHT]) * policy_loss + (
            replay_weight * settings[VF_COEF]
        ) * value_loss
        loss.backward()
        measures = {
            "replay/weight_mean": weight,
            "replay/rho_mean": steps.rho,
            "replay/rho_clip_fraction": steps.log_ratio.exp() > self._config.rho_bar,
            "replay/td_error": steps.error[steps.trainable],
        }
        optimizer.record(loss, measures)

    def metrics(self) -> Metrics:
        """Return the metrics of the replay buffer."""
        return self._replay.metrics()

    def _first_priorities(self, pieces: Rollout, settings: Settings) -> NDArray[np.float64]:
        """Return the priorities by the weights that acted, from the recorded values."""
        trajectory = Trajectory.of(pieces, self._rewards.applied(pieces.reward))
        on_policy = torch.zeros_like(pieces.log_prob)
        target = vtrace_returns(self._config, trajectory, pieces.value, on_policy, settings).target
        return self._priorities((target - pieces.value).abs(), pieces.trainable)

    def _priorities(self, error: Tensor, trainable: Tensor) -> NDArray[np.float64]:
        """Return each row's priority: its largest and its mean error; 0 with nothing to learn."""
        errors = error.detach().cpu().numpy().astype(np.float64)
        counts = trainable.cpu().numpy()
        number, peak = counts.sum(0), self._config.replay.peak
        errors = np.where(counts, errors, 0.0)
        mixed = peak * errors.max(0) + (1 - peak) * errors.sum(0) / np.maximum(number, 1)
        return np.where(number > 0, mixed + LEAST_PRIORITY, 0.0)
