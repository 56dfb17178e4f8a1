"""What chooses the actions of a rollout."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from longhaul.core.policy import Act, Policy
from longhaul.core.rollout import Memory, TensorTree
from longhaul.core.seeds import Seeds
from longhaul.core.settings import Settings


class Actor(Protocol):
    """Acts with the weights a policy has at the beginning of a rollout."""

    def begin(self) -> None:
        """Act with the policy's present weights until the next call."""

    def act(self, obs: TensorTree, memory: Memory, settings: Settings, mask: Tensor | None) -> Act:
        """Choose actions for [N] rows; the next call may overwrite what is returned."""

    def draw_apart(self, seeds: Seeds, *stream: int) -> None:
        """Draw actions from a separate stream, as one of several."""

    def generator_state(self) -> object:
        """Return what the next actions are drawn from."""

    def restore_generator(self, state: object) -> None:
        """Draw what followed a saved state; that of another kind of actor is left alone."""


class PolicyActor:
    """Calls the policy, and draws from torch's generator."""

    def __init__(self, policy: Policy, seeds: Seeds) -> None:
        self._policy = policy
        self._generator = torch.Generator(next(policy.parameters()).device)
        self.draw_apart(seeds)

    def begin(self) -> None:
        """Do nothing: the policy's weights are used as they are."""

    def act(self, obs: TensorTree, memory: Memory, settings: Settings, mask: Tensor | None) -> Act:
        """Choose actions for [N] rows."""
        return self._policy.act(obs, memory, settings, mask=mask, generator=self._generator)

    def draw_apart(self, seeds: Seeds, *stream: int) -> None:
        """Draw actions from a separate stream, as one of several."""
        self._generator.manual_seed(seeds.integer("collect", "actions", *stream))

    def generator_state(self) -> object:
        """Return the generator's state."""
        return self._generator.get_state()

    def restore_generator(self, state: object) -> None:
        """Draw what followed a saved state; that of another kind of actor is left alone."""
        if isinstance(state, Tensor):
            self._generator.set_state(state)
