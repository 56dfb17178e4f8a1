"""Proximal policy optimization (Schulman et al. 2017).

    r_t   = pi(a_t|s_t) / pi_old(a_t|s_t)
    loss  = -L_CLIP + c_1 L_VF - c_2 S
    L_CLIP = mean of min(r_t A_t, clip(r_t, 1 - epsilon, 1 + epsilon) A_t)
    L_VF  = mean of (V(s_t) - V_t^targ)^2
    S     = mean entropy of pi(.|s_t)

epsilon is `clip_range`, c_1 is `vf_coef` and c_2 is `ent_coef`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from longhaul.core.metrics import Metrics
from longhaul.core.rollout import Rollout
from longhaul.core.settings import Settings
from longhaul.learn.base import Learner
from longhaul.learn.config import CLIP_RANGE, GAMMA, VF_COEF, PPOConfig
from longhaul.learn.losses import (
    approximate_kl,
    clipped_surrogate,
    clipped_value_error,
    normalized,
    policy_measures,
    policy_terms,
    value_error,
)
from longhaul.learn.minibatches import Minibatch, RolloutBatches, mean_by
from longhaul.learn.returns import Trajectory, gae

KL = "train/approx_kl"
KL_TOLERANCE = 1.5  # as in Stable-Baselines3


class PPO(Learner[Minibatch]):
    """Learns from each rollout in several epochs of clipped steps."""

    config_class = PPOConfig
    config: PPOConfig

    def prepare(self, rollout: Rollout, reward: Tensor, settings: Settings) -> RolloutBatches:
        """Estimate A_t and V_t^targ from the recorded values V_old(s_t)."""
        advantages = gae(
            Trajectory.of(rollout, reward),
            rollout.value,
            gamma=settings[GAMMA],
            gae_lambda=self.config.gae_lambda,
        )
        advantage, target, trainable = advantages.advantage, advantages.target, rollout.trainable
        self.fits.append((rollout.value[trainable], target[trainable]))
        if self.config.normalize_advantage:
            # Over the rollout, not each minibatch: every step has the same scale.
            advantage = torch.zeros_like(advantage).masked_scatter_(
                trainable, normalized(advantage[trainable])
            )
        facts = [rollout.log_prob, advantage, target, rollout.value]
        return RolloutBatches.of(
            rollout, facts, self.device, whole=self.policy.recurrent, lessons=self.lesson
        )

    def learn_minibatch(
        self, minibatch: Minibatch, settings: Settings, *, share: float
    ) -> Mapping[str, Tensor]:
        """Add the gradient of -L_CLIP + c_1 L_VF - c_2 S."""
        log_prob_old, advantage, target, value_old = minibatch.facts  # [n] each
        evaluated = self.policy.evaluate_actions(minibatch.sequences, settings)
        log_prob, value = minibatch.pick(evaluated.log_prob), minibatch.pick(evaluated.value)
        entropy = minibatch.pick(evaluated.entropy)

        # The ratio r_t = pi(a_t|s_t) / pi_old(a_t|s_t), and epsilon the clip range.
        log_ratio = log_prob.detach() - log_prob_old
        ratio = log_ratio.exp()
        # -L_CLIP = -min(r_t A_t, clip(r_t, 1 - epsilon, 1 + epsilon) A_t)
        policy_loss, is_clipped = clipped_surrogate(
            log_prob, ratio, advantage, clip_range=settings[CLIP_RANGE]
        )
        # The value loss L_VF is (V(s_t) - V_t^targ)^2.
        if self.config.clip_range_vf > 0:
            value_loss = clipped_value_error(
                value, target, value_old, clip_range_vf=self.config.clip_range_vf
            )
        else:
            value_loss = value_error(value, target)

        # The entropy bonus -c_2 S is one of the policy's terms.
        others = policy_terms(evaluated, entropy, settings)
        logits = None
        if minibatch.lesson is not None and evaluated.logits is not None:
            logits = minibatch.pick_rows(evaluated.logits)
        of_policy = self.taught(policy_loss, minibatch.lesson, logits, settings)
        loss = of_policy + settings[VF_COEF] * value_loss + others
        loss.backward(share)
        measures = {
            KL: approximate_kl(ratio, log_ratio),
            "train/clip_fraction": is_clipped,
            **policy_measures(evaluated),
        }
        return self.optimizer.record(loss, measures)

    def begin_epoch(self, epoch: int) -> None:
        """Report the KL divergence of the last epoch only."""
        self.optimizer.tally.forget(KL)

    def has_moved_too_far(self, measures: Mapping[str, Tensor]) -> bool:
        """Whether KL(pi_old, pi) is above 1.5 times `target_kl`."""
        limit = self.config.target_kl * KL_TOLERANCE
        if limit <= 0:
            return False
        divergence = measures.get(KL, torch.empty(0))
        is_too_far = mean_by(self.group, divergence) > limit
        if is_too_far and divergence.numel():
            self.optimizer.tally.add(KL, divergence)
        return is_too_far

    def metrics(self, settings: Settings) -> Metrics:
        """Return the clip range in force."""
        return {"train/clip_range": settings[CLIP_RANGE]}
