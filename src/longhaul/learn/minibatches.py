"""A rollout dealt into minibatches of whole sequences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longhaul.core.rollout import Rollout, Sequences, fold_chunks


@dataclass(frozen=True, slots=True)
class Minibatch:
    """Sequences for the policy to judge and the facts about those steps that are learned from."""

    sequences: Sequences  # [L, B]
    facts: Tensor  # [F, n]
    trainable: Tensor | None  # [n], places in the flattened [L, B]; None when it is all of them

    def pick(self, judged: Tensor) -> Tensor:
        """Return the steps that are learned from, [n], of something judged, [L, B]."""
        flat = judged.flatten()
        return flat if self.trainable is None else flat.index_select(0, self.trainable)


@dataclass(frozen=True, slots=True)
class Material:
    """A rollout as sequences with facts beside them, ready to be dealt."""

    sequences: Sequences  # [L, C]
    facts: Tensor  # [F * L, C], the log-probabilities, advantages, ... of each step
    trainable: Tensor  # [L, C] bool
    counts: NDArray[np.int64]  # [C], steps of each column that are learned from
    device: torch.device  # where minibatches go

    @staticmethod
    def of(rollout: Rollout, facts: list[Tensor], device: torch.device, *, whole: bool) -> Material:
        """Arrange a rollout with facts, each [T, N]; without `whole`, steps are dealt singly."""
        steps, rows = rollout.steps, rollout.rows
        length = rollout.chunk if whole else 1
        columns = steps * rows // length
        sequences = rollout.sequences() if whole else _single(rollout)
        folded = [fold_chunks(fact, length).reshape(length, columns) for fact in facts]
        trainable = fold_chunks(rollout.trainable, length).reshape(length, columns)
        return Material(
            sequences,
            torch.stack(folded).view(len(facts) * length, columns),
            trainable,
            trainable.sum(0).cpu().numpy(),
            device,
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
        # A column of length one is only ever dealt if its step is learned from.
        if self.length > 1 and int(self.counts[columns].sum()) < facts.shape[1]:
            trainable = self.trainable.index_select(1, index).flatten().nonzero().squeeze(1)
            facts = facts.index_select(1, trainable)
        sequences = take_columns(self.sequences, index, self.device)
        if trainable is not None:
            trainable = trainable.to(self.device)
        return Minibatch(sequences, facts.to(self.device), trainable)

    def groups(
        self, generator: np.random.Generator, *, minibatch: int, accumulate: int
    ) -> Iterator[list[NDArray[np.int64]]]:
        """Deal all columns with something to learn in random order: per optimizer step, the
        columns of each of its minibatches."""
        parts = deal(np.flatnonzero(self.counts), generator, size=max(1, minibatch // self.length))
        for first in range(0, len(parts), accumulate):
            yield parts[first : first + accumulate]


def deal(
    items: NDArray[np.int64], generator: np.random.Generator, *, size: int
) -> list[NDArray[np.int64]]:
    """Return the items in random order, in the fewest equal shares of at most `size`.

    Equal shares, because a small remainder would make as large a step from far fewer samples.
    """
    if len(items) == 0:
        return []
    return np.array_split(generator.permutation(items), -(-len(items) // size))


def take_columns(sequences: Sequences, columns: Tensor, device: torch.device) -> Sequences:
    """Return the sequences of these columns, on this device."""

    def take(tensor: Tensor, dim: int = 1) -> Tensor:
        return tensor.index_select(dim, columns).to(device)

    return Sequences(
        obs={name: take(part) for name, part in sequences.obs.items()},
        action=take(sequences.action),
        started=take(sequences.started),
        mask=None if sequences.mask is None else take(sequences.mask),
        memory={name: take(part, 0) for name, part in sequences.memory.items()},
        noise_seed=sequences.noise_seed,
    )


def _single(rollout: Rollout) -> Sequences:
    """Return every step as a sequence of its own, without copying."""

    def line_up(tensor: Tensor) -> Tensor:
        return tensor.flatten(0, 1).unsqueeze(0)

    return Sequences(
        obs={name: line_up(part) for name, part in rollout.obs.items()},
        action=line_up(rollout.action),
        started=line_up(rollout.started),
        mask=None if rollout.mask is None else line_up(rollout.mask),
        memory={},
        noise_seed=rollout.noise_seed,
    )
