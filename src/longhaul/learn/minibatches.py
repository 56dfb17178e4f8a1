"""Rollouts split into minibatches, and these among the processes that learn together.

Single steps or sequences for PPO, rows for V-trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from longhaul.core.policy import ActionEvaluation, Policy
from longhaul.core.rollout import Bootstrap, Memory, Rollout, Sequences, fold_chunks, unfold_chunks
from longhaul.core.settings import Settings
from longhaul.core.spaces import DURATION
from longhaul.learn.config import GAMMA, OnPolicyConfig
from longhaul.learn.losses import normalized
from longhaul.learn.returns import Trajectory, VTraceReturns, vtrace

Items = NDArray[np.int64]
"""Which steps or sequences of a rollout are learned from."""


class LearnerGroup:
    """The learners that share one run's minibatches and take the same steps; by itself, one."""

    @property
    def size(self) -> int:
        """Number of learners."""
        return 1

    def part(self, items: Items) -> Items:
        """Return this learner's part of a minibatch, possibly empty; the parts add up to it."""
        return items

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace every tensor by its sum over the group, bit-equal in all learners."""


SINGLE = LearnerGroup()


def normalized_by(group: LearnerGroup, advantage: Tensor) -> Tensor:
    """Return this part's advantages, normalized over the whole group's minibatch."""
    if group.size == 1:
        return normalized(advantage)
    exact = advantage.double()
    sums = torch.stack(
        [torch.tensor(float(advantage.numel()), dtype=torch.float64), exact.sum().cpu()]
    )
    group.add_up([sums])
    count, total = float(sums[0]), float(sums[1])
    if count < 2:
        return advantage
    mean = total / count
    # The second pass keeps the digits that a difference of squares would lose.
    squares = (exact - mean).square().sum().cpu()
    group.add_up([squares])
    deviation = float((squares / (count - 1)).sqrt())
    return (advantage - mean) / (deviation + 1e-8)


def mean_by(group: LearnerGroup, values: Tensor) -> float:
    """Return the mean over the whole group's values."""
    if group.size == 1:
        return float(values.mean())
    sums = torch.tensor([float(values.numel()), float(values.double().sum())], dtype=torch.float64)
    group.add_up([sums])
    return float(sums[1]) / max(float(sums[0]), 1.0)


def add_up_gradients(group: LearnerGroup, parameters: Sequence[nn.Parameter]) -> None:
    """Give every learner the gradient of the whole minibatch.

    A weight without a gradient in any learner keeps none, and the optimizer leaves it as it is.
    """
    if group.size == 1:
        return
    has = torch.tensor([float(p.grad is not None) for p in parameters])
    group.add_up([has])
    felt = [p for p, count in zip(parameters, has.tolist(), strict=True) if count]
    for parameter in felt:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    group.add_up([p.grad for p in felt if p.grad is not None])


M_co = TypeVar("M_co", covariant=True)


class Batches(Protocol[M_co]):
    """A rollout as items of equal length, some of which make a minibatch."""

    @property
    def length(self) -> int:
        """Steps of each item."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many steps of each item are learned from."""

    def take(self, items: Items, /) -> M_co:
        """Return the minibatch of these items, of which there is at least one."""


def shuffled(
    batches: Batches[M_co], generator: np.random.Generator, *, minibatch_size: int, accumulate: int
) -> Iterator[list[Items]]:
    """Yield, for each optimizer step, the items of its minibatches, in random order."""
    size = max(1, minibatch_size // batches.length)
    parts = deal(np.flatnonzero(batches.counts), generator, size=size)
    for first in range(0, len(parts), accumulate):
        yield parts[first : first + accumulate]


def deal(items: Items, generator: np.random.Generator, *, size: int) -> list[Items]:
    """Return the items in random order, in the fewest equal shares of at most `size`.

    Equal shares, because a small remainder would make as large a step from far fewer samples.
    """
    if len(items) == 0:
        return []
    return np.array_split(generator.permutation(items), -(-len(items) // size))


@dataclass(frozen=True, slots=True)
class Minibatch:
    """Sequences for the policy to evaluate, and facts about the steps that are learned from."""

    sequences: Sequences  # [L, B]
    facts: Tensor  # [F, n]
    trainable: Tensor | None  # [n], places in the flattened [L, B]; None when it is all of them
    lesson: Tensor | None = None  # [n, choices], what a teacher would do

    def pick(self, evaluated: Tensor) -> Tensor:
        """Return the steps that are learned from, [n], of something evaluated, [L, B]."""
        flat = evaluated.flatten()
        return flat if self.trainable is None else flat.index_select(0, self.trainable)

    def pick_rows(self, evaluated: Tensor) -> Tensor:
        """Return the steps that are learned from, [n, k], of something evaluated, [L, B, k]."""
        flat = evaluated.flatten(0, 1)
        return flat if self.trainable is None else flat.index_select(0, self.trainable)


@dataclass(frozen=True, slots=True)
class RolloutBatches:
    """A rollout as sequences, with facts about each step."""

    sequences: Sequences  # [L, C]
    facts: Tensor  # [F * L, C], the log-probabilities, advantages, ... of each step
    trainable: Tensor  # [L, C] bool
    counts: NDArray[np.int64]  # [C], steps of each column that are learned from
    device: torch.device  # where minibatches go
    lessons: Tensor | None = None  # [L, C, choices]

    @staticmethod
    def of(
        rollout: Rollout,
        facts: list[Tensor],
        device: torch.device,
        *,
        whole: bool,
        lessons: Tensor | None = None,
    ) -> RolloutBatches:
        """Arrange a rollout with facts, each [T, N], and what a teacher says [T, N, choices].

        Without `whole`, items are single steps.
        """
        steps, rows = rollout.steps, rollout.rows
        length = rollout.chunk if whole else 1
        columns = steps * rows // length
        sequences = rollout.sequences() if whole else _single(rollout)
        folded = [fold_chunks(fact, length).reshape(length, columns) for fact in facts]
        trainable = fold_chunks(rollout.trainable, length).reshape(length, columns)
        return RolloutBatches(
            sequences,
            torch.stack(folded).view(len(facts) * length, columns),
            trainable,
            trainable.sum(0).cpu().numpy(),
            device,
            None
            if lessons is None
            else fold_chunks(lessons, length).reshape(length, columns, lessons.shape[2]),
        )

    @property
    def length(self) -> int:
        """L."""
        return int(self.trainable.shape[0])

    def take(self, columns: NDArray[np.int64]) -> Minibatch:
        """Return these columns as a minibatch."""
        index = torch.from_numpy(columns).to(self.facts.device)
        facts = self.facts.index_select(1, index).view(-1, self.length * len(columns))
        trainable = None
        # A column of length one is an item only if its step is learned from.
        if self.length > 1 and int(self.counts[columns].sum()) < facts.shape[1]:
            trainable = self.trainable.index_select(1, index).flatten().nonzero().squeeze(1)
            facts = facts.index_select(1, trainable)
        sequences = take_columns(self.sequences, index, self.device)
        lesson = None
        if self.lessons is not None:
            lesson = self.lessons.index_select(1, index).flatten(0, 1)
            lesson = lesson if trainable is None else lesson.index_select(0, trainable)
            lesson = lesson.to(self.device)
        if trainable is not None:
            trainable = trainable.to(self.device)
        return Minibatch(sequences, facts.to(self.device), trainable, lesson)


def take_columns(sequences: Sequences, columns: Tensor, device: torch.device) -> Sequences:
    """Return the sequences of these columns, on this device."""

    def take(tensor: Tensor, dim: int = 1) -> Tensor:
        return tensor.index_select(dim, columns).to(device)

    memory = {name: take(part, 0) for name, part in sequences.memory.items()}
    return _rearranged(sequences, take, memory)


def _single(rollout: Rollout) -> Sequences:
    """Return every step as a sequence [1, T * N], without copying."""
    return _rearranged(rollout, lambda tensor: tensor.flatten(0, 1).unsqueeze(0), {})


def _rearranged(
    recorded: Rollout | Sequences, change: Callable[[Tensor], Tensor], memory: Memory
) -> Sequences:
    return Sequences(
        obs={name: change(part) for name, part in recorded.obs.items()},
        action=change(recorded.action),
        started=change(recorded.started),
        mask=None if recorded.mask is None else change(recorded.mask),
        memory=memory,
        noise_seed=recorded.noise_seed,
    )


@dataclass(frozen=True, slots=True)
class VTraceBatch:
    """Rows of a rollout evaluated by the present weights; flat tensors hold the n trained steps."""

    evaluated: ActionEvaluation  # [chunk, T / chunk * R]
    trainable: Tensor  # [T, R] bool
    error: Tensor  # [T, R], distance of the value from its target
    places: Tensor  # [n], of the trained steps in the flattened [T, R]
    log_prob: Tensor  # [n], log pi(a|x)
    value: Tensor  # [n], V(x)
    entropy: Tensor  # [n]
    log_ratio: Tensor  # [n], log(pi / mu)
    target: Tensor  # [n], v_s
    advantage: Tensor  # [n]
    rho: Tensor  # [n]
    lesson: Tensor | None = None  # [n, choices], what a teacher would do
    logits: Tensor | None = None  # [n, choices] of the present weights, only with a lesson


@dataclass(frozen=True, slots=True)
class VTraceInputs:
    """A rollout whose rows are evaluated by the present weights whenever they are taken.

    Items are whole rows, because targets flow along a row: one evaluation serves both the targets
    and the gradient.
    """

    policy: Policy
    config: OnPolicyConfig
    rollout: Rollout
    sequences: Sequences  # [chunk, T / chunk * N]
    reward: Tensor  # [T, N], as the learner sees it
    settings: Settings
    counts: NDArray[np.int64]  # [N]
    lessons: Tensor | None = None  # [T, N, choices]

    @staticmethod
    def of(
        policy: Policy, config: OnPolicyConfig, rollout: Rollout, reward: Tensor, settings: Settings
    ) -> VTraceInputs:
        """Return a rollout with rewards [T, N]."""
        counts = rollout.trainable.sum(0).cpu().numpy()
        return VTraceInputs(policy, config, rollout, rollout.sequences(), reward, settings, counts)

    @property
    def length(self) -> int:
        """T."""
        return self.rollout.steps

    def take(self, items: Items) -> VTraceBatch:
        """Return these rows evaluated by the present weights, with gradients."""
        rollout, steps = self.rollout, self.rollout.steps
        rows = torch.from_numpy(items).to(self.reward.device)
        evaluated = self._evaluate(rows)
        log_prob, value = (unfold_chunks(x, steps) for x in (evaluated.log_prob, evaluated.value))
        trainable = rollout.trainable.index_select(1, rows).to(value.device)
        old_log_prob = rollout.log_prob.index_select(1, rows).to(value.device)
        # Forced actions are the environment's doing: they carry no importance weight.
        log_ratio = (log_prob.detach() - old_log_prob).masked_fill_(~trainable, 0.0)
        trajectory = self._trajectory(rows, value)
        returns = vtrace_returns(self.config, trajectory, value.detach(), log_ratio, self.settings)
        keep = trainable.flatten().nonzero().squeeze(1)

        def pick(tensor: Tensor) -> Tensor:
            return tensor.flatten().index_select(0, keep)

        return VTraceBatch(
            evaluated,
            trainable,
            (returns.target - value.detach()).abs(),
            keep,
            pick(log_prob),
            pick(value),
            pick(unfold_chunks(evaluated.entropy, steps)),
            pick(log_ratio),
            pick(returns.target),
            pick(returns.advantage),
            pick(returns.rho),
            *self._taught(rows, evaluated, keep),
        )

    def _taught(
        self, rows: Tensor, evaluated: ActionEvaluation, keep: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return what a teacher would do in the trained steps, and the present logits."""
        if self.lessons is None or evaluated.logits is None:
            return None, None
        lesson = self.lessons.index_select(1, rows).to(keep.device)
        logits = unfold_chunks(evaluated.logits, self.rollout.steps)

        return lesson.flatten(0, 1)[keep], logits.flatten(0, 1)[keep]

    def _evaluate(self, rows: Tensor) -> ActionEvaluation:
        chunks = self.rollout.steps // self.rollout.chunk
        first = torch.arange(chunks, device=rows.device) * self.rollout.rows
        columns = (first.unsqueeze(1) + rows).flatten()
        sequences = take_columns(self.sequences, columns, self._device)
        return self.policy.evaluate_actions(sequences, self.settings)

    def _trajectory(self, rows: Tensor, value: Tensor) -> Trajectory:
        """Return what happened to these rows, with bootstrap values by the present weights."""
        rollout = self.rollout
        cuts = rollout.truncations
        place = torch.full((rollout.rows,), -1, dtype=torch.int64, device=rows.device)
        place[rows] = torch.arange(len(rows), device=rows.device)
        mine = (place[cuts.row] >= 0).nonzero().squeeze(1)
        cut_value = torch.zeros_like(value, requires_grad=False)
        self.policy.set_noise(rollout.noise_seed)
        if mine.numel():
            where = (cuts.step[mine].to(value.device), place[cuts.row[mine]].to(value.device))
            cut_value[where] = self._value(cuts, mine)
        duration = rollout.measures.get(DURATION)
        # The last observations come in order of their rows.
        return Trajectory(
            self.reward.index_select(1, rows),
            rollout.terminated.index_select(1, rows),
            rollout.truncated.index_select(1, rows),
            rollout.active.index_select(1, rows),
            cut_value,
            self._value(rollout.last, rows),
            rollout.lost.index_select(1, rows),
            None if duration is None else duration.index_select(1, rows),
        )

    @torch.no_grad()
    def _value(self, bootstrap: Bootstrap, places: Tensor) -> Tensor:
        def take(tensor: Tensor) -> Tensor:
            return tensor.index_select(0, places).to(self._device)

        return self.policy.value(
            {name: take(part) for name, part in bootstrap.obs.items()},
            {name: take(part) for name, part in bootstrap.memory.items()},
            self.settings,
        )

    @property
    def _device(self) -> torch.device:
        return next(self.policy.parameters()).device


def vtrace_returns(
    config: OnPolicyConfig,
    trajectory: Trajectory,
    value: Tensor,
    log_ratio: Tensor,
    settings: Settings,
) -> VTraceReturns:
    """Return V-trace targets with the bounds of the config."""
    return vtrace(
        trajectory,
        value,
        log_ratio,
        gamma=settings[GAMMA],
        vtrace_lambda=config.vtrace_lambda,
        bars=(config.rho_bar, config.c_bar),
    )
