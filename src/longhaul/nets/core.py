"""What a policy's memory must be able to do."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from longhaul.core.rollout import Memory


class SequenceCore(nn.Module, ABC):
    """A memory that steps row by row while acting and runs over whole sequences while learning."""

    outputs: int

    @abstractmethod
    def initial(self, rows: int) -> Memory:
        """Return the memory of rows that begin an episode: zeros."""

    @abstractmethod
    def step(self, features: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """Return outputs [N, outputs] of features [N, inputs], and the next memory."""

    @abstractmethod
    def sequence(self, features: Tensor, memory: Memory, started: Tensor) -> tuple[Tensor, Memory]:
        """Return outputs [L, B, outputs] of features [L, B, inputs], and the memory after them.

        `memory` is that before the first step; where `started` [L, B], it is cleared first.
        """


class NoCore(SequenceCore):
    """No memory: features pass through."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.outputs = inputs

    def initial(self, rows: int) -> Memory:
        """Return an empty memory."""
        return {}

    def step(self, features: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """Return the features."""
        return features, memory

    def sequence(self, features: Tensor, memory: Memory, started: Tensor) -> tuple[Tensor, Memory]:
        """Return the features."""
        return features, memory
