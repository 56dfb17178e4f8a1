"""V-trace actor-critic (Espeholt et al. 2018), for rollouts of older weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longhaul.core.metrics import Metrics
from longhaul.core.policy import Judgement, Policy
from longhaul.core.rollout import Bootstrap, Rollout, Sequences, unfold_chunks
from longhaul.core.seeds import generator_state, restore_generator
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.learn.advantage import Course, Limits, VTrace, vtrace
from longhaul.learn.config import LearnConfig
from longhaul.learn.guard import rollout_fault
from longhaul.learn.losses import (
    divergence_of,
    explained_variance,
    normalised,
    value_error,
    vtrace_policy_gradient,
)
from longhaul.learn.minibatches import deal, take_columns
from longhaul.learn.normalise import RewardScale
from longhaul.learn.objective import common_pulls, policy_measures
from longhaul.learn.optimise import Descent, Pull
from longhaul.learn.settings import DISCOUNT, LEARNING_RATE, VALUE_WEIGHT


@dataclass(frozen=True, slots=True)
class _Lesson:
    """One rollout as every minibatch of it needs it."""

    rollout: Rollout
    sequences: Sequences  # [chunk, T / chunk * N]
    reward: Tensor  # [T, N], as the learner sees it
    settings: Settings
    counts: NDArray[np.int64]  # [N], steps of each row that are learned from


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

    def __init__(self, policy: Policy, config: LearnConfig, generator: np.random.Generator) -> None:
        self.policy = policy
        self._config = config
        self._limits = Limits(config.rho_bar, config.c_bar)
        self._generator = generator
        self._rewards = RewardScale(normalise=config.normalise_reward, clip=config.reward_clip)
        self._descent = Descent(policy, config)

    def update(self, rollout: Rollout, settings: Settings) -> Metrics:
        """Learn from one rollout; the weights are finite afterwards, whatever it held."""
        fault = rollout_fault(rollout)
        if fault is not None:
            self._descent.guard.refuse(fault)
            return {"fault/skipped_updates": 1.0, "fault/rollbacks": 0.0}
        lesson = _Lesson(
            rollout,
            rollout.sequences(),
            self._rewards.scaled(rollout, discount=settings[DISCOUNT]),
            settings,
            rollout.trainable.sum(0).cpu().numpy(),
        )
        self._descent.begin(settings[LEARNING_RATE])
        fits = self._learn(lesson)
        self.policy.observe(rollout.obs, rollout.active)
        metrics = self._descent.finish()
        explained = None
        if fits:
            explained = explained_variance(
                torch.cat([fit.value for fit in fits]), torch.cat([fit.target for fit in fits])
            )
        if explained is not None and math.isfinite(explained):
            metrics["train/explained_variance"] = explained
        return metrics

    def _learn(self, lesson: _Lesson) -> list[_Fit]:
        """Go through the epochs; return the fit of the first one, before it had learned."""
        config = self._config
        rows_at_once = max(1, config.minibatch // lesson.rollout.steps)
        first_fits: list[_Fit] = []
        for epoch in range(config.epochs):
            parts = deal(np.flatnonzero(lesson.counts), self._generator, size=rows_at_once)
            for begin in range(0, len(parts), config.accumulate):
                group = parts[begin : begin + config.accumulate]
                total = sum(int(lesson.counts[rows].sum()) for rows in group)
                fits = [self._add(lesson, rows, total) for rows in group]
                if epoch == 0:
                    first_fits += fits
                if not self._descent.step():
                    return first_fits
        return first_fits

    def _add(self, lesson: _Lesson, row_numbers: NDArray[np.int64], total: int) -> _Fit:
        """Add one minibatch's gradient; `total` is how many steps the whole step learns from."""
        rollout, settings = lesson.rollout, lesson.settings
        rows = torch.from_numpy(row_numbers).to(rollout.reward.device)
        judged = self._judge(lesson, rows)
        steps = rollout.steps
        log_prob, value = (unfold_chunks(x, steps) for x in (judged.log_prob, judged.value))
        trainable = rollout.trainable.index_select(1, rows).to(value.device)
        old_log_prob = rollout.log_prob.index_select(1, rows).to(value.device)
        # Forced actions are the environment's doing: they carry no importance weight.
        log_ratio = (log_prob.detach() - old_log_prob).masked_fill_(~trainable, 0.0)
        traced = self._trace(self._course(lesson, rows, value), value, log_ratio, settings)

        keep = trainable.flatten().nonzero().squeeze(1)

        def pick(tensor: Tensor) -> Tensor:
            return tensor.flatten().index_select(0, keep)

        share = keep.numel() / total
        log_prob, value, entropy = map(
            pick, (log_prob, value, unfold_chunks(judged.entropy, steps))
        )
        target, log_ratio = pick(traced.target), pick(log_ratio)
        advantage, rho = pick(traced.advantage), pick(traced.rho)
        if self._config.normalise_advantage:
            advantage = normalised(advantage)
        weight = settings[VALUE_WEIGHT]
        pulls = [
            Pull(
                "train/policy_gradient_loss",
                log_prob,
                vtrace_policy_gradient(log_prob, rho, advantage, scale=share),
                1.0,
            ),
            Pull(
                "train/value_loss",
                value,
                value_error(value, target, scale=weight * share),
                weight,
            ),
            *common_pulls(judged, entropy, settings, share=share),
        ]
        ratio = log_ratio.exp()
        measures = {
            "train/approx_kl": divergence_of(ratio, log_ratio),
            "train/vtrace_rho_mean": rho,
            "train/vtrace_rho_clip_fraction": ratio > self._limits.rho_bar,
            **policy_measures(judged),
        }
        self._descent.add(pulls, measures)
        return _Fit(value.detach(), target)

    def _judge(self, lesson: _Lesson, rows: Tensor) -> Judgement:
        chunks = lesson.rollout.steps // lesson.rollout.chunk
        first = torch.arange(chunks, device=rows.device) * lesson.rollout.rows
        columns = (first.unsqueeze(1) + rows).flatten()
        sequences = take_columns(lesson.sequences, columns, self._device)
        return self.policy.judge(sequences, lesson.settings)

    def _course(self, lesson: _Lesson, rows: Tensor, value: Tensor) -> Course:
        """Return what happened to these rows, with bootstrap values by the present weights."""
        rollout = lesson.rollout
        cuts = rollout.truncations
        place = torch.full((rollout.rows,), -1, dtype=torch.int64, device=rows.device)
        place[rows] = torch.arange(len(rows), device=rows.device)
        mine = (place[cuts.row] >= 0).nonzero().squeeze(1)
        cut_value = torch.zeros_like(value, requires_grad=False)
        self.policy.set_noise(rollout.noise_seed)
        if mine.numel():
            where = (cuts.step[mine].to(value.device), place[cuts.row[mine]].to(value.device))
            cut_value[where] = self._value(cuts, mine, lesson.settings)
        # The last observations come in order of their rows.
        return Course(
            lesson.reward.index_select(1, rows),
            rollout.terminated.index_select(1, rows),
            rollout.truncated.index_select(1, rows),
            rollout.active.index_select(1, rows),
            cut_value,
            self._value(rollout.last, rows, lesson.settings),
            rollout.lost.index_select(1, rows),
        )

    @torch.no_grad()
    def _value(self, bootstrap: Bootstrap, places: Tensor, settings: Settings) -> Tensor:
        def take(tensor: Tensor) -> Tensor:
            return tensor.index_select(0, places).to(self._device)

        return self.policy.value(
            {name: take(part) for name, part in bootstrap.obs.items()},
            {name: take(part) for name, part in bootstrap.memory.items()},
            settings,
        )

    def _trace(
        self, course: Course, value: Tensor, log_ratio: Tensor, settings: Settings
    ) -> VTrace:
        return vtrace(
            course,
            value.detach(),
            log_ratio,
            discount=settings[DISCOUNT],
            decay=self._config.vtrace_decay,
            limits=self._limits,
        )

    @property
    def _device(self) -> torch.device:
        return next(self.policy.parameters()).device

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
