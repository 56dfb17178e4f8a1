"""V-trace actor-critic (Espeholt et al. 2018), for rollouts of older weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longhaul.core.metrics import Metrics
from longhaul.core.policy import Policy
from longhaul.core.rollout import Rollout
from longhaul.core.seeds import generator_state, restore_generator
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.learn.config import LearnConfig
from longhaul.learn.guard import rollout_fault
from longhaul.learn.losses import (
    divergence_of,
    error_quantiles,
    explained_variance,
    value_error,
    vtrace_policy_gradient,
)
from longhaul.learn.minibatches import deal
from longhaul.learn.normalise import RewardScale
from longhaul.learn.objective import common_pulls, policy_measures
from longhaul.learn.optimise import Descent, Pull
from longhaul.learn.rehearsal import Rehearsal
from longhaul.learn.replay import NoReplay, Replay
from longhaul.learn.settings import DISCOUNT, LEARNING_RATE, VALUE_WEIGHT
from longhaul.learn.team import Team, normalised_by
from longhaul.learn.trace import Lesson, Tracer


@dataclass(frozen=True, slots=True)
class _Fit:
    """Values and their targets of the steps one minibatch learned from."""

    value: Tensor  # [n]
    target: Tensor  # [n]


class VTraceLearner:
    """Learns by importance-weighted steps; values and targets always come from present weights.

    A minibatch holds whole rows of the rollout, because targets flow along a row: so one judgement
    serves both the targets and the gradient.
    """

    def __init__(
        self,
        policy: Policy,
        config: LearnConfig,
        generator: np.random.Generator,
        replay: Replay | None = None,
    ) -> None:
        self.policy = policy
        self._config = config
        self._generator = generator
        self._rewards = RewardScale(normalise=config.normalise_reward, clip=config.reward_clip)
        self._descent = Descent(policy, config)
        self._tracer = Tracer(policy, config)
        self._rehearsal = Rehearsal(policy, config, replay or NoReplay(), self._rewards)

    def join(self, team: Team) -> None:
        """Learn together with others; what is measured is then measured on this one's part."""
        self._descent.team = team

    def update(self, rollout: Rollout, settings: Settings) -> Metrics:
        """Learn from one rollout; the weights are finite afterwards, whatever it held."""
        fault = rollout_fault(rollout)
        if fault is not None:
            self._descent.guard.refuse(fault)
            return {"fault/skipped_updates": 1.0, "fault/rollbacks": 0.0}
        reward = self._rewards.scaled(rollout, discount=settings[DISCOUNT])
        self._rehearsal.begin(rollout, settings)
        self._descent.begin(settings[LEARNING_RATE])
        fits = self._learn(Lesson.of(rollout, reward, settings))
        self.policy.observe(rollout.obs, rollout.active)
        metrics = {**self._descent.finish(), **self._rehearsal.metrics()}
        explained = None
        if fits:
            value = torch.cat([fit.value for fit in fits])
            target = torch.cat([fit.target for fit in fits])
            metrics |= error_quantiles(value, target)
            explained = explained_variance(value, target)
        if explained is not None and math.isfinite(explained):
            metrics["train/explained_variance"] = explained
        return metrics

    def _learn(self, lesson: Lesson) -> list[_Fit]:
        """Go through the epochs; return the fit of the first one, before it had learned."""
        config = self._config
        rows_at_once = max(1, config.minibatch // lesson.rollout.steps)
        counts = lesson.rollout.trainable.sum(0).cpu().numpy()
        first_fits: list[_Fit] = []
        for epoch in range(config.epochs):
            parts = deal(np.flatnonzero(counts), self._generator, size=rows_at_once)
            for begin in range(0, len(parts), config.accumulate):
                group = parts[begin : begin + config.accumulate]
                total = sum(int(counts[rows].sum()) for rows in group)
                self._rehearsal.add(self._descent, lesson.settings)
                fits = [self._add(lesson, rows, total) for rows in group]
                if epoch == 0:
                    first_fits += [fit for fit in fits if fit.value.numel()]
                if not self._descent.step():
                    return first_fits
        return first_fits

    def _add(self, lesson: Lesson, row_numbers: NDArray[np.int64], total: int) -> _Fit:
        """Add one minibatch's gradient; `total` is how many steps the whole step learns from."""
        settings, team = lesson.settings, self._descent.team
        rows = torch.from_numpy(team.part(row_numbers)).to(lesson.reward.device)
        if rows.numel() == 0:
            if self._config.normalise_advantage:
                normalised_by(team, torch.empty(0))  # the others wait for our part of it
            return _Fit(torch.empty(0), torch.empty(0))
        traced = self._tracer.trace(lesson, rows)
        steps = traced.flat()
        share = steps.places.numel() / total
        advantage = steps.advantage
        if self._config.normalise_advantage:
            advantage = normalised_by(team, advantage)
        weight = settings[VALUE_WEIGHT]
        pulls = [
            Pull(
                "train/policy_gradient_loss",
                steps.log_prob,
                vtrace_policy_gradient(steps.log_prob, steps.rho, advantage, scale=share),
                1.0,
            ),
            Pull(
                "train/value_loss",
                steps.value,
                value_error(steps.value, steps.target, scale=weight * share),
                weight,
            ),
            *common_pulls(traced.judged, steps.entropy, settings, share=share),
        ]
        ratio = steps.log_ratio.exp()
        measures = {
            "train/approx_kl": divergence_of(ratio, steps.log_ratio),
            "train/vtrace_rho_mean": steps.rho,
            "train/vtrace_rho_clip_fraction": ratio > self._tracer.limits.rho_bar,
            **policy_measures(traced.judged),
        }
        self._descent.add(pulls, measures)
        return _Fit(steps.value.detach(), steps.target)

    def state_dict(self) -> State:
        """Return weights, optimizer, generator, reward scale and counts."""
        return {
            **self._descent.state_dict(),
            "generator": generator_state(self._generator),
            "rewards": self._rewards.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state."""
        self._descent.load_state_dict(state)
        restore_generator(self._generator, state["generator"])
        self._rewards.load_state_dict(state["rewards"])
