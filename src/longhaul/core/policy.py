"""What a policy must be able to do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from longhaul.core.rollout import Memory, Sequences, TensorTree
from longhaul.core.settings import Settings

Generators: TypeAlias = torch.Generator | Sequence[torch.Generator]
"""What actions are drawn from: one generator for all rows, or one for each equal share of them."""

NO_NOISE = -1
"""The noise seed of a policy that acts without parameter noise."""


@dataclass(frozen=True, slots=True)
class Act:
    """What the policy does in each row."""

    action: Tensor  # [N, ...]
    log_prob: Tensor  # [N]
    value: Tensor  # [N]
    memory: Memory  # [N, ...], for the next step
    shown: dict[str, Tensor] = field(default_factory=dict)  # [N] or [N, k], for people who watch
    logits: Tensor | None = None  # [N, choices] after the mask; None for continuous actions


@dataclass(frozen=True, slots=True)
class ActionEvaluation:
    """What the policy thinks of recorded actions."""

    log_prob: Tensor  # [L, B]
    entropy: Tensor  # [L, B]
    value: Tensor  # [L, B]
    aux_losses: dict[str, Tensor] = field(default_factory=dict)  # scalars, weighted by settings
    metrics: dict[str, Tensor] = field(default_factory=dict)  # scalars
    logits: Tensor | None = None  # [L, B, choices] after the mask; None for continuous actions


@dataclass(frozen=True, slots=True)
class DenseNetwork:
    """A policy of nothing but fully connected layers, for learners that compute it themselves.

    Layers are named as the parameters are, without `.weight` and `.bias`.
    """

    inputs: Callable[[TensorTree], Tensor]  # [N, inputs] of an observation
    nets: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    """For each trunk its activated layers, and the outlets that read the last of them."""
    policy: str
    """The outlet whose outputs are logits or means."""
    value: str
    activation: Literal["tanh", "relu"]
    choices: tuple[int, ...]
    """Sizes of the discrete choices; empty for continuous actions."""
    log_std: str = ""
    """The parameter that holds the logarithms of the deviations of continuous actions."""


class Policy(nn.Module, ABC):
    """A network that acts step by step and judges whole sequences by the same function."""

    @property
    @abstractmethod
    def recurrent(self) -> bool:
        """Whether there is a memory; sequences must then be kept together."""

    @abstractmethod
    def initial_state(self, rows: int) -> Memory:
        """Return the memory of rows that begin an episode: zeros."""

    @abstractmethod
    def act(
        self,
        obs: TensorTree,
        memory: Memory,
        settings: Settings,
        *,
        mask: Tensor | None = None,
        generator: Generators | None = None,
    ) -> Act:
        """Choose actions for [N] rows; without a generator, the most likely ones.

        `memory` is already cleared for rows that begin an episode.
        """

    def choose(
        self,
        obs: TensorTree,
        memory: Memory,
        settings: Settings,
        *,
        mask: Tensor | None = None,
        generator: Generators | None = None,
    ) -> tuple[Tensor, Memory]:
        """Return the actions and the memory of `act` alone, which may save work."""
        act = self.act(obs, memory, settings, mask=mask, generator=generator)
        return act.action, act.memory

    @abstractmethod
    def value(self, obs: TensorTree, memory: Memory, settings: Settings) -> Tensor:
        """Return the value [N] of observations seen with this memory."""

    @abstractmethod
    def evaluate_actions(self, sequences: Sequences, settings: Settings) -> ActionEvaluation:
        """Return log-probability, entropy and value of each recorded step."""

    @property
    def shown_names(self) -> Mapping[str, tuple[str, ...]]:
        """What the choices or the columns in `Act.shown` stand for, where they have names."""
        return {}

    def set_noise(self, seed: int) -> None:
        """Draw the parameter noise of one rollout, none for `NO_NOISE`; a policy may have none."""

    def observe(self, obs: TensorTree, active: Tensor) -> None:
        """Update input statistics from a learned rollout; nothing to do without any."""

    def dense_network(self) -> DenseNetwork | None:
        """Describe the policy if it is nothing but fully connected layers."""
        return None
