"""What the present weights think of recorded steps, and the V-trace targets that follow."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from longhaul.core.policy import Judgement, Policy
from longhaul.core.rollout import Bootstrap, Rollout, Sequences, unfold_chunks
from longhaul.core.settings import Settings
from longhaul.learn.advantage import Course, Limits, VTrace, vtrace
from longhaul.learn.config import LearnConfig
from longhaul.learn.minibatches import take_columns
from longhaul.learn.settings import DISCOUNT


@dataclass(frozen=True, slots=True)
class Lesson:
    """One rollout as every minibatch of it needs it."""

    rollout: Rollout
    sequences: Sequences  # [chunk, T / chunk * N]
    reward: Tensor  # [T, N], as the learner sees it
    settings: Settings

    @staticmethod
    def of(rollout: Rollout, reward: Tensor, settings: Settings) -> Lesson:
        """Return a rollout as a lesson."""
        return Lesson(rollout, rollout.sequences(), reward, settings)


@dataclass(frozen=True, slots=True)
class Traced:
    """Some rows of a lesson by the present weights."""

    judged: Judgement  # [chunk, T / chunk * R]
    log_prob: Tensor  # [T, R]
    value: Tensor  # [T, R]
    entropy: Tensor  # [T, R]
    trainable: Tensor  # [T, R] bool
    log_ratio: Tensor  # [T, R], log(pi / mu) of the policy's own actions, zero elsewhere
    vtrace: VTrace  # [T, R]

    def flat(self) -> FlatTrace:
        """Return the steps that are learned from, side by side."""
        keep = self.trainable.flatten().nonzero().squeeze(1)

        def pick(tensor: Tensor) -> Tensor:
            return tensor.flatten().index_select(0, keep)

        return FlatTrace(
            keep,
            pick(self.log_prob),
            pick(self.value),
            pick(self.entropy),
            pick(self.log_ratio),
            pick(self.vtrace.target),
            pick(self.vtrace.advantage),
            pick(self.vtrace.rho),
        )


@dataclass(frozen=True, slots=True)
class FlatTrace:
    """The n steps that are learned from."""

    places: Tensor  # [n], in the flattened [T, R]
    log_prob: Tensor
    value: Tensor
    entropy: Tensor
    log_ratio: Tensor
    target: Tensor
    advantage: Tensor
    rho: Tensor


class Tracer:
    """Judges rows of rollouts; values and targets always come from the present weights."""

    def __init__(self, policy: Policy, config: LearnConfig) -> None:
        self._policy = policy
        self._decay = config.vtrace_decay
        self.limits = Limits(config.rho_bar, config.c_bar)

    def trace(self, lesson: Lesson, rows: Tensor) -> Traced:
        """Return these rows by the present weights; gradients flow through what is judged."""
        rollout = lesson.rollout
        judged = self._judge(lesson, rows)
        steps = rollout.steps
        log_prob, value = (unfold_chunks(x, steps) for x in (judged.log_prob, judged.value))
        trainable = rollout.trainable.index_select(1, rows).to(value.device)
        old_log_prob = rollout.log_prob.index_select(1, rows).to(value.device)
        # Forced actions are the environment's doing: they carry no importance weight.
        log_ratio = (log_prob.detach() - old_log_prob).masked_fill_(~trainable, 0.0)
        traced = self.targets(
            self._course(lesson, rows, value), value.detach(), log_ratio, lesson.settings
        )
        entropy = unfold_chunks(judged.entropy, steps)
        return Traced(judged, log_prob, value, entropy, trainable, log_ratio, traced)

    def targets(
        self, course: Course, value: Tensor, log_ratio: Tensor, settings: Settings
    ) -> VTrace:
        """Return the V-trace targets of a course."""
        return vtrace(
            course,
            value,
            log_ratio,
            discount=settings[DISCOUNT],
            decay=self._decay,
            limits=self.limits,
        )

    def _judge(self, lesson: Lesson, rows: Tensor) -> Judgement:
        chunks = lesson.rollout.steps // lesson.rollout.chunk
        first = torch.arange(chunks, device=rows.device) * lesson.rollout.rows
        columns = (first.unsqueeze(1) + rows).flatten()
        sequences = take_columns(lesson.sequences, columns, self._device)
        return self._policy.judge(sequences, lesson.settings)

    def _course(self, lesson: Lesson, rows: Tensor, value: Tensor) -> Course:
        """Return what happened to these rows, with bootstrap values by the present weights."""
        rollout = lesson.rollout
        cuts = rollout.truncations
        place = torch.full((rollout.rows,), -1, dtype=torch.int64, device=rows.device)
        place[rows] = torch.arange(len(rows), device=rows.device)
        mine = (place[cuts.row] >= 0).nonzero().squeeze(1)
        cut_value = torch.zeros_like(value, requires_grad=False)
        self._policy.set_noise(rollout.noise_seed)
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

        return self._policy.value(
            {name: take(part) for name, part in bootstrap.obs.items()},
            {name: take(part) for name, part in bootstrap.memory.items()},
            settings,
        )

    @property
    def _device(self) -> torch.device:
        return next(self._policy.parameters()).device
