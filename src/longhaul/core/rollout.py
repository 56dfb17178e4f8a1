"""What a collector hands to a learner."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from longhaul.core.env import EnvEvent, Episode

Memory = dict[str, Tensor]
"""A policy's recurrent memory by name, [rows, ...]; empty for a policy without one."""
TensorTree = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Observations whose value continues a cut sequence."""

    step: Tensor  # [K] int64, the step after which they were seen
    row: Tensor  # [K] int64
    obs: TensorTree  # [K, ...]
    memory: Memory  # [K, ...], of the policy that acted, after that step
    value: Tensor  # [K], by the policy that acted


@dataclass(frozen=True, slots=True)
class Sequences:
    """A piece of a rollout for `Policy.evaluate_actions`: L steps of B rows."""

    obs: TensorTree  # [L, B, ...]
    action: Tensor  # [L, B, ...]
    started: Tensor  # [L, B] bool, memory is cleared before these steps
    mask: Tensor | None  # [L, B, choices] bool
    memory: Memory  # [B, ...], before the first step
    noise_seed: int


@dataclass(frozen=True, slots=True)
class Rollout:
    """T steps of N rows, by the policy that acted."""

    obs: TensorTree  # [T, N, ...]
    action: Tensor  # [T, N, ...]
    log_prob: Tensor  # [T, N], 0 where the action was forced
    value: Tensor  # [T, N]
    reward: Tensor  # [T, N]
    terminated: Tensor  # [T, N] bool
    truncated: Tensor  # [T, N] bool
    started: Tensor  # [T, N] bool, the observation is an episode's first
    active: Tensor  # [T, N] bool, the row was there to act
    forced: Tensor  # [T, N] bool, the action was not the policy's choice
    lost: Tensor  # [T, N] bool, what the action led to is not known: its env failed
    mask: Tensor | None  # [T, N, choices] bool
    memory: Memory  # [T / chunk, N, ...], before steps 0, chunk, 2 chunk, ...
    chunk: int
    truncations: Bootstrap  # the K truncated rows, in order of step and row
    last: Bootstrap  # all N rows after the last step
    episodes: tuple[Episode, ...]
    terms: dict[str, float]  # sum of each reward term over active rows
    noise_seed: int
    env_steps: int  # transitions by active rows
    events: tuple[EnvEvent, ...] = ()
    starts_dealt: int = 0  # episodes begun from a hard start
    absent: Tensor | None = None  # [N] bool, rows whose steps are another rollout's; None: no row
    measures: TensorTree = field(default_factory=dict)  # [T, N] of each, after the step

    @property
    def steps(self) -> int:
        """T."""
        return int(self.reward.shape[0])

    @property
    def rows(self) -> int:
        """N."""
        return int(self.reward.shape[1])

    @property
    def trainable(self) -> Tensor:
        """[T, N] bool, steps the policy may learn from: there, by its choice, with an outcome."""
        return self.active & ~self.forced & ~self.lost

    def sequences(self) -> Sequences:
        """Return the whole rollout as sequences of `chunk` steps: L = chunk, B = T / chunk * N."""

        def fold(tensor: Tensor) -> Tensor:
            return fold_chunks(tensor, self.chunk)

        return Sequences(
            obs={name: fold(part) for name, part in self.obs.items()},
            action=fold(self.action),
            started=fold(self.started),
            mask=None if self.mask is None else fold(self.mask),
            memory={name: part.flatten(0, 1) for name, part in self.memory.items()},
            noise_seed=self.noise_seed,
        )


def fold_chunks(tensor: Tensor, chunk: int) -> Tensor:
    """Return [T, N, ...] as [chunk, T / chunk * N, ...], each column one stretch of time."""
    steps, rows = tensor.shape[:2]
    if chunk == steps:
        return tensor
    parts = tensor.reshape(steps // chunk, chunk, rows, *tensor.shape[2:])
    return parts.transpose(0, 1).reshape(chunk, steps // chunk * rows, *tensor.shape[2:])


def unfold_chunks(tensor: Tensor, steps: int) -> Tensor:
    """Undo `fold_chunks`."""
    chunk, columns = tensor.shape[:2]
    if chunk == steps:
        return tensor
    rows = columns * chunk // steps
    parts = tensor.reshape(chunk, steps // chunk, rows, *tensor.shape[2:])
    return parts.transpose(0, 1).reshape(steps, rows, *tensor.shape[2:])


def clear_started(memory: Memory, started: Tensor) -> Memory:
    """Return the memory with the rows that begin an episode set to zero."""
    if not memory:
        return memory
    return {
        name: torch.where(started.view(-1, *[1] * (part.dim() - 1)), torch.zeros_like(part), part)
        for name, part in memory.items()
    }
