"""Proximal policy optimization (Schulman et al. 2017)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from longhaul.core.metrics import Metrics
from longhaul.core.rollout import Rollout
from longhaul.core.settings import Settings
from longhaul.learn.base import Learner
from longhaul.learn.config import CLIP_RANGE, GAMMA, VF_COEF, PPOConfig
from longhaul.learn.distributed import mean_by
from longhaul.learn.losses import (
    Loss,
    approximate_kl,
    clipped_surrogate,
    clipped_value_error,
    normalized,
    policy_measures,
    policy_terms,
    value_error,
)
from longhaul.learn.minibatches import Minibatch, RolloutBatches
from longhaul.learn.returns import Trajectory, gae

_KL = "train/approx_kl"
_KL_TOLERANCE = 1.5  # as in Stable-Baselines3, so that a known target keeps its meaning


class PPO(Learner[Minibatch]):
    """Learns from each rollout in several epochs of clipped steps."""

    config_class = PPOConfig
    config: PPOConfig

    def prepare(self, rollout: Rollout, reward: Tensor, settings: Settings) -> RolloutBatches:
        """Estimate the advantages A of the rollout by the values that were recorded."""
        trajectory = Trajectory.of(rollout, reward)
        estimate = gae(
            trajectory, rollout.value, gamma=settings[GAMMA], decay=self.config.gae_lambda
        )
        advantage, target, trainable = estimate.advantage, estimate.target, rollout.trainable
        self.fits.append((rollout.value[trainable], target[trainable]))
        if self.config.normalize_advantage:
            # Over the rollout rather than each minibatch: the same scale for every step of it.
            advantage = torch.zeros_like(advantage).masked_scatter_(
                trainable, normalized(advantage[trainable])
            )
        return RolloutBatches.of(
            rollout,
            [rollout.log_prob, advantage, target, rollout.value],
            self.device,
            whole=self.policy.recurrent,
        )

    def loss(self, minibatch: Minibatch, settings: Settings) -> tuple[Loss, Mapping[str, Tensor]]:
        """Return L = L_clip + c1 L_value - c2 S, and how far the policy has moved."""
        old_log_prob, advantage, target, old_value = minibatch.facts  # [n] each
        evaluated = self.policy.evaluate_actions(minibatch.sequences, settings)
        log_prob, value = minibatch.pick(evaluated.log_prob), minibatch.pick(evaluated.value)
        entropy = minibatch.pick(evaluated.entropy)

        # The ratio r = pi(a|s) / pi_old(a|s).
        log_ratio = log_prob.detach() - old_log_prob
        ratio = log_ratio.exp()
        # L_clip = -min(r A, clip(r, 1 - epsilon, 1 + epsilon) A)
        policy_loss, is_outside = clipped_surrogate(
            log_prob, ratio, advantage, clip_range=settings[CLIP_RANGE]
        )
        # L_value is the squared error (V(s) - target)^2.
        if self.config.clip_range_vf > 0:
            value_loss = clipped_value_error(
                value, target, old_value, clip_range_vf=self.config.clip_range_vf
            )
        else:
            value_loss = value_error(value, target)

        loss = (
            policy_loss
            + settings[VF_COEF] * value_loss
            + policy_terms(evaluated, entropy, settings)
        )
        measures = {
            _KL: approximate_kl(ratio, log_ratio),
            "train/clip_fraction": is_outside,
            **policy_measures(evaluated),
        }
        return loss, measures

    def begin_epoch(self, epoch: int) -> None:
        """Report the divergence of the last epoch alone."""
        self.optimizer.tally.forget(_KL)

    def has_moved_too_far(self, measures: Mapping[str, Tensor]) -> bool:
        """Whether the divergence from the policy that acted is above its limit."""
        limit = self.config.target_kl * _KL_TOLERANCE
        if limit <= 0:
            return False
        divergence = measures.get(_KL, torch.empty(0))
        is_too_far = mean_by(self.group, divergence) > limit
        if is_too_far and divergence.numel():
            self.optimizer.tally.add(_KL, divergence)
        return is_too_far

    def metrics(self, settings: Settings) -> Metrics:
        """Return the clip range in force."""
        return {"train/clip_range": settings[CLIP_RANGE]}
