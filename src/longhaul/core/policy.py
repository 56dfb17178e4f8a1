"""What a policy must be able to do."""

from __future__ import annotations

import math
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
class VectorPart:
    """One part of an observation as inputs of a network: flat, scaled, moved and limited."""

    name: str
    size: int
    factor: float = 1.0
    """What its numbers are multiplied with."""
    moved: Callable[[], tuple[Tensor, Tensor]] | None = None
    """Returns the present shift and scale of the normalizer: x becomes (x - shift) scale."""
    limit: float = math.inf
    """The largest and, negated, the smallest number after that."""


@dataclass(frozen=True, slots=True)
class ImagePart:
    """One part of an observation as bytes, which a network reads divided by 255."""

    name: str
    shape: tuple[int, int, int]
    """Channels, height and width."""

    @property
    def size(self) -> int:
        """The number of bytes."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Windows:
    """The square windows in which a convolution reads an image; beyond the edges it is zero."""

    size: int
    stride: int
    edges: tuple[int, int]
    """Rows and columns that are read beyond each edge."""


VECTOR = -1
"""The source of a layer that reads the vector of an observation; image k is `VECTOR - 1 - k`."""


@dataclass(frozen=True, slots=True)
class PlainLayer:
    """A fully connected layer, or a convolution."""

    names: tuple[str, ...]
    """Layers that stand side by side, as the parameters are named, without the `.weight`."""
    sources: tuple[int, ...]
    """Numbers of the layers it reads, one after another, or what it reads of the observation."""
    activation: Literal["tanh", "relu", "none"] = "none"
    windows: Windows | None = None


@dataclass(frozen=True, slots=True)
class PlainNetwork:
    """A policy of nothing but such layers, for code that computes it without torch."""

    inputs: Callable[[TensorTree], Tensor]  # [N, inputs] of an observation
    parts: tuple[VectorPart, ...]
    """The same, part by part, in the order of the inputs."""
    images: tuple[ImagePart, ...]
    layers: tuple[PlainLayer, ...]
    policy: str
    """The name of the layer whose outputs are logits or means."""
    value: str
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

    def plain_network(self) -> PlainNetwork | None:
        """Describe the policy if it is nothing but plain layers."""
        return None
