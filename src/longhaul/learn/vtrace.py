"""V-trace actor-critic (IMPALA, Espeholt et al. 2018), for rollouts of older weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from longhaul.core.rollout import Rollout
from longhaul.core.settings import Settings
from longhaul.learn.base import Learner
from longhaul.learn.config import VF_COEF, VTraceConfig
from longhaul.learn.distributed import normalized_by
from longhaul.learn.losses import (
    Loss,
    approximate_kl,
    policy_measures,
    policy_terms,
    value_error,
    vtrace_policy_gradient,
)
from longhaul.learn.minibatches import VTraceBatch, VTraceInputs


class VTrace(Learner[VTraceBatch]):
    """Learns by importance-weighted steps; values and targets come from the present weights."""

    config_class = VTraceConfig
    _is_first_epoch = True

    def prepare(self, rollout: Rollout, reward: Tensor, settings: Settings) -> VTraceInputs:
        """Keep the rollout as it is: every minibatch is evaluated by the weights of its moment."""
        return VTraceInputs.of(self.policy, self.config, rollout, reward, settings)

    def loss(self, minibatch: VTraceBatch, settings: Settings) -> tuple[Loss, Mapping[str, Tensor]]:
        """Return L = -rho A log pi(a|x) + c1 (V(x) - v)^2 - c2 S, and the importance weights."""
        steps = minibatch
        if self._is_first_epoch:
            self.fits.append((steps.value.detach(), steps.target))
        # A_s = r_s + gamma v_{s+1} - V(x_s)
        advantage = steps.advantage
        if self.config.normalize_advantage:
            advantage = normalized_by(self.group, advantage)

        loss = (
            vtrace_policy_gradient(steps.log_prob, steps.rho, advantage)
            + settings[VF_COEF] * value_error(steps.value, steps.target)
            + policy_terms(steps.evaluated, steps.entropy, settings)
        )
        ratio = steps.log_ratio.exp()
        measures = {
            "train/approx_kl": approximate_kl(ratio, steps.log_ratio),
            "train/vtrace_rho_mean": steps.rho,
            "train/vtrace_rho_clip_fraction": ratio > self.config.rho_bar,
            **policy_measures(steps.evaluated),
        }
        return loss, measures

    def begin_epoch(self, epoch: int) -> None:
        """Measure the fit of the values in the first epoch alone, before it has learned."""
        self._is_first_epoch = epoch == 0

    def sit_out(self) -> None:
        """Add nothing to the moments of the group's advantages, for which the others wait."""
        if self.config.normalize_advantage:
            normalized_by(self.group, torch.empty(0))
