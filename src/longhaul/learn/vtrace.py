"""V-trace actor-critic (IMPALA, Espeholt et al. 2018), for rollouts of older weights.

mu is the policy that acted, pi the present one. With v_s and rho_s from `returns.vtrace`:

    A_s  = r_s + gamma v_{s+1} - V(x_s)
    loss = mean of -rho_s A_s log pi(a_s|x_s) + c_1 (V(x_s) - v_s)^2 - c_2 S

c_1 is `vf_coef`, c_2 is `ent_coef`, S the entropy of pi(.|x_s).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from longhaul.core.rollout import Rollout
from longhaul.core.settings import Settings
from longhaul.learn.base import Learner
from longhaul.learn.config import VF_COEF, VTraceConfig
from longhaul.learn.losses import (
    approximate_kl,
    policy_measures,
    policy_terms,
    value_error,
    vtrace_policy_gradient,
)
from longhaul.learn.minibatches import VTraceBatch, VTraceInputs, normalized_by


class VTrace(Learner[VTraceBatch]):
    """Learns by importance-weighted steps; values and targets come from the present weights."""

    config_class = VTraceConfig
    _is_first_epoch = True

    def prepare(self, rollout: Rollout, reward: Tensor, settings: Settings) -> VTraceInputs:
        """Keep the rollout as it is: each minibatch is evaluated by the weights of its moment."""
        inputs = VTraceInputs.of(self.policy, self.config, rollout, reward, settings)
        return inputs if self.lesson is None else replace(inputs, lessons=self.lesson)

    def learn_minibatch(
        self, minibatch: VTraceBatch, settings: Settings, *, share: float
    ) -> Mapping[str, Tensor]:
        """Add the gradient of -rho A log pi + c_1 (V - v)^2 - c_2 S."""
        steps = minibatch  # [n] each: log pi(a|x), V(x), v, rho, A, log(pi / mu)
        if self._is_first_epoch:
            self.fits.append((steps.value.detach(), steps.target))
        advantage = steps.advantage
        if self.config.normalize_advantage:
            advantage = normalized_by(self.group, advantage)

        # The policy gradient loss is -rho_s A_s log pi(a_s|x_s).
        policy_loss = vtrace_policy_gradient(steps.log_prob, steps.rho, advantage)
        # The value loss is (V(x_s) - v_s)^2.
        value_loss = value_error(steps.value, steps.target)
        # The entropy bonus -c_2 S is one of the policy's terms.
        others = policy_terms(steps.evaluated, steps.entropy, settings)
        of_policy = self.taught(policy_loss, steps.lesson, steps.logits, settings)
        loss = of_policy + settings[VF_COEF] * value_loss + others
        loss.backward(share)
        ratio = steps.log_ratio.exp()
        measures = {
            "train/approx_kl": approximate_kl(ratio, steps.log_ratio),
            "train/vtrace_rho_mean": steps.rho,
            "train/vtrace_rho_clip_fraction": ratio > self.config.rho_bar,
            **policy_measures(steps.evaluated),
        }
        return self.optimizer.record(loss, measures)

    def begin_epoch(self, epoch: int) -> None:
        """Measure the fit of the values in the first epoch only, before learning from it."""
        self._is_first_epoch = epoch == 0

    def sit_out(self) -> None:
        """Add nothing to the moments of the group's advantages, for which the others wait."""
        if self.config.normalize_advantage:
            normalized_by(self.group, torch.empty(0))
