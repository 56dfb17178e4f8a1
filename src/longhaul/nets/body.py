"""What lies between observations and heads."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from longhaul.core.rollout import Memory, TensorTree
from longhaul.nets.core import SequenceCore
from longhaul.nets.encoder import Encoder, Vector
from longhaul.nets.mlp import Mlp


class Body(nn.Module, ABC):
    """Makes features for the policy and for the value out of observations and memory."""

    outputs: int

    @abstractmethod
    def initial(self, rows: int) -> Memory:
        """Return the memory of rows that begin an episode: zeros."""

    @abstractmethod
    def step(self, obs: TensorTree, memory: Memory) -> tuple[Tensor, Tensor, Memory]:
        """Return the features of policy and value, [N, outputs] each, and the next memory."""

    @abstractmethod
    def value_step(self, obs: TensorTree, memory: Memory) -> Tensor:
        """Return the value's features [N, outputs] alone."""

    @abstractmethod
    def sequence(self, obs: TensorTree, memory: Memory, started: Tensor) -> tuple[Tensor, Tensor]:
        """Return both features [L * B, outputs] of observations [L * B, ...].

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

    def step(self, obs: TensorTree, memory: Memory) -> tuple[Tensor, Tensor, Memory]:
        """Return both MLPs' outputs."""
        vector, policy, value = self._direct
        x = vector.forward(obs)
        return policy.forward(x), value.forward(x), memory

    def value_step(self, obs: TensorTree, memory: Memory) -> Tensor:
        """Return the value MLP's output."""
        vector, _, value = self._direct
        return value.forward(vector.forward(obs))

    def sequence(self, obs: TensorTree, memory: Memory, started: Tensor) -> tuple[Tensor, Tensor]:
        """Return both MLPs' outputs."""
        policy, value, _ = self.step(obs, memory)
        return policy, value

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

    def step(self, obs: TensorTree, memory: Memory) -> tuple[Tensor, Tensor, Memory]:
        """Return the core's output twice."""
        features, memory = self.core.step(self.encoder.forward(obs), memory)
        return features, features, memory

    def value_step(self, obs: TensorTree, memory: Memory) -> Tensor:
        """Return the core's output."""
        return self.core.step(self.encoder.forward(obs), memory)[0]

    def sequence(self, obs: TensorTree, memory: Memory, started: Tensor) -> tuple[Tensor, Tensor]:
        """Return the core's output over the sequence twice."""
        features = self.encoder.forward(obs).unflatten(0, started.shape)
        features, _ = self.core.sequence(features, memory, started)
        features = features.flatten(0, 1)
        return features, features

    def observe(self, obs: TensorTree, active: Tensor) -> None:
        """Update the encoder's normalisers."""
        self.encoder.vector.observe(obs, active)
