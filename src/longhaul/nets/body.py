"""What lies between observations and heads.

A body also applies the heads' layers, because together with its own they can be one operation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn

from longhaul.core.rollout import Memory, TensorTree
from longhaul.nets.core import SequenceCore
from longhaul.nets.encoder import Encoder, Vector
from longhaul.nets.mlp import Mlp
from longhaul.nets.noisy import DirectLayer


@dataclass(frozen=True, slots=True)
class Outlets:
    """The layers that end in the policy's and the value's outputs."""

    policy: DirectLayer
    value: DirectLayer


class Body(nn.Module, ABC):
    """Turns observations and memory into what the outlets make of its features."""

    outputs: int

    @abstractmethod
    def initial(self, rows: int) -> Memory:
        """Return the memory of rows that begin an episode: zeros."""

    @abstractmethod
    def step(
        self, obs: TensorTree, memory: Memory, outlets: Outlets
    ) -> tuple[Tensor, Tensor, Memory]:
        """Return the outlets' [N, ...] for policy and value, and the next memory."""

    @abstractmethod
    def value_step(self, obs: TensorTree, memory: Memory, outlets: Outlets) -> Tensor:
        """Return the value's [N, 1] alone."""

    @abstractmethod
    def sequence(
        self, obs: TensorTree, memory: Memory, started: Tensor, outlets: Outlets
    ) -> tuple[Tensor, Tensor]:
        """Return the outlets' [L * B, ...] of observations [L * B, ...].

        `started` [L, B] marks the steps before which the memory [B, ...] is cleared.
        """

    @abstractmethod
    def observe(self, obs: TensorTree, active: Tensor) -> None:
        """Update input statistics."""


class SeparateBody(Body):
    """Two MLPs over one vector, and no memory."""

    def __init__(self, vector: Vector, policy: Mlp, value: Mlp) -> None:
        super().__init__()
        self.outputs = policy.outputs
        self.vector = vector
        self.policy = policy
        self.value = value
        # A plain tuple: reaching modules through nn.Module costs a microsecond each on every step.
        self._direct = (vector, policy, value)

    def initial(self, rows: int) -> Memory:
        """Return an empty memory."""
        return {}

    def step(
        self, obs: TensorTree, memory: Memory, outlets: Outlets
    ) -> tuple[Tensor, Tensor, Memory]:
        """Return both MLPs' outputs."""
        vector, policy, value = self._direct
        x = vector.forward(obs)
        for_policy = policy.forward(x, outlets.policy.affine())
        return for_policy, value.forward(x, outlets.value.affine()), memory

    def value_step(self, obs: TensorTree, memory: Memory, outlets: Outlets) -> Tensor:
        """Return the value MLP's output."""
        vector, _, value = self._direct
        return value.forward(vector.forward(obs), outlets.value.affine())

    def sequence(
        self, obs: TensorTree, memory: Memory, started: Tensor, outlets: Outlets
    ) -> tuple[Tensor, Tensor]:
        """Return both MLPs' outputs."""
        for_policy, for_value, _ = self.step(obs, memory, outlets)
        return for_policy, for_value

    def observe(self, obs: TensorTree, active: Tensor) -> None:
        """Update the vector's normalisers."""
        self.vector.observe(obs, active)


class SharedBody(Body):
    """One encoder and one memory for both heads."""

    def __init__(self, encoder: Encoder, core: SequenceCore) -> None:
        super().__init__()
        self.outputs = core.outputs
        self.encoder = encoder
        self.core = core

    def initial(self, rows: int) -> Memory:
        """Return the core's zeros."""
        return self.core.initial(rows)

    def step(
        self, obs: TensorTree, memory: Memory, outlets: Outlets
    ) -> tuple[Tensor, Tensor, Memory]:
        """Return what the outlets make of the core's output."""
        features, memory = self.core.step(self.encoder.forward(obs), memory)
        return outlets.policy(features), outlets.value(features), memory

    def value_step(self, obs: TensorTree, memory: Memory, outlets: Outlets) -> Tensor:
        """Return what the value's outlet makes of the core's output."""
        return outlets.value(self.core.step(self.encoder.forward(obs), memory)[0])

    def sequence(
        self, obs: TensorTree, memory: Memory, started: Tensor, outlets: Outlets
    ) -> tuple[Tensor, Tensor]:
        """Return what the outlets make of the core's output over the sequence."""
        features = self.encoder.forward(obs).unflatten(0, started.shape)
        features, _ = self.core.sequence(features, memory, started)
        features = features.flatten(0, 1)
        return outlets.policy(features), outlets.value(features)

    def observe(self, obs: TensorTree, active: Tensor) -> None:
        """Update the encoder's normalisers."""
        self.encoder.vector.observe(obs, active)
