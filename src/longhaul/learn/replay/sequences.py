"""Rollouts cut into short sequences, each a small rollout."""

from __future__ import annotations

import torch
from torch import Tensor

from longhaul.core.errors import ConfigError
from longhaul.core.rollout import Bootstrap, Rollout, TensorTree, fold_chunks

LONGEST = 16  # steps; without a memory, longer sequences only extend the V-trace sum


def sequence_length(wanted: int, *, steps: int, chunk: int, recurrent: bool) -> int:
    """Return the length of the sequences rollouts of `steps` are cut into."""
    if wanted == 0 and recurrent:
        return chunk
    if wanted == 0:
        return max(length for length in range(1, LONGEST + 1) if steps % length == 0)
    if steps % wanted:
        raise ConfigError(f"learn.replay.length = {wanted} must divide collect.num_steps = {steps}")
    if recurrent and wanted % chunk:
        raise ConfigError(
            f"learn.replay.length = {wanted} must be a multiple of the {chunk} steps after which "
            "the policy's memory is kept; set collect.chunk to a divisor of it"
        )
    return wanted


def cut_up(rollout: Rollout, length: int, scratch: TensorTree | None = None) -> Rollout:
    """Return the rollout's sequences side by side: `length` steps of T / length * N rows.

    Each ends with the observation after it, like a rollout, and nothing flows from one to another.
    With a `scratch`, observations are laid out in its tensors and good until it is used again:
    fresh memory for them costs several times as much as the copy.
    """
    scratch = {} if scratch is None else scratch
    steps, rows = rollout.steps, rollout.rows
    if length == steps:
        return rollout

    def fold(tensor: Tensor) -> Tensor:
        return fold_chunks(tensor, length)

    cuts = rollout.truncations
    every = max(1, length // rollout.chunk)
    memory = {name: part[::every] for name, part in rollout.memory.items()}
    return Rollout(
        obs={name: _folded(name, part, length, scratch) for name, part in rollout.obs.items()},
        action=fold(rollout.action),
        log_prob=fold(rollout.log_prob),
        value=fold(rollout.value),
        reward=fold(rollout.reward),
        terminated=fold(rollout.terminated),
        truncated=fold(rollout.truncated),
        started=fold(rollout.started),
        active=fold(rollout.active),
        forced=fold(rollout.forced),
        lost=_lost(rollout, length),
        mask=None if rollout.mask is None else fold(rollout.mask),
        memory={name: part.flatten(0, 1).unsqueeze(0) for name, part in memory.items()},
        chunk=length,
        truncations=Bootstrap(
            cuts.step % length,
            cuts.step // length * rows + cuts.row,
            cuts.obs,
            cuts.memory,
            cuts.value,
        ),
        last=_ends(rollout, length),
        episodes=(),
        terms={},
        noise_seed=rollout.noise_seed,
        env_steps=rollout.env_steps,
    )


def _folded(name: str, part: Tensor, length: int, scratch: TensorTree) -> Tensor:
    """Return `fold_chunks(part, length)` in the scratch's memory."""
    steps, rows = part.shape[:2]
    shape = (length, steps // length * rows, *part.shape[2:])
    if name not in scratch or scratch[name].shape != shape:
        scratch[name] = torch.empty(shape, dtype=part.dtype)
    target = scratch[name].view(length, steps // length, rows, *part.shape[2:])
    target.copy_(part.reshape(steps // length, length, rows, *part.shape[2:]).transpose(0, 1))
    return scratch[name]


def _ends(rollout: Rollout, length: int) -> Bootstrap:
    """Return what was seen after each sequence: at the next one's start, or at the very end."""

    def after(kept: Tensor, last: Tensor, every: int) -> Tensor:
        return torch.cat([kept[every::every].flatten(0, 1), last.to(kept)])

    last = rollout.last
    columns = torch.arange(rollout.steps // length * rollout.rows)
    every = max(1, length // rollout.chunk)
    return Bootstrap(
        torch.full_like(columns, length - 1),
        columns,
        {name: after(part, last.obs[name], length) for name, part in rollout.obs.items()},
        {name: after(part, last.memory[name], every) for name, part in rollout.memory.items()},
        after(rollout.value, last.value, length),
    )


def _lost(rollout: Rollout, length: int) -> Tensor:
    """Return which steps are lost, those included whose outcome is out of the sequence's sight.

    A row that is away when its sequence ends shows nothing that its last step could continue with.
    """
    lost = fold_chunks(rollout.lost, length).clone()
    active = fold_chunks(rollout.active, length)
    ended = fold_chunks(rollout.terminated | rollout.truncated, length)
    away = torch.zeros(lost.shape[1], dtype=torch.bool, device=lost.device)
    inner = rollout.active[length::length].flatten()
    away[: inner.numel()] = ~inner
    for t in range(length - 1, -1, -1):
        away &= ~ended[t]
        lost[t] |= away & active[t]
        away &= ~active[t]
        if not away.any():
            break
    return lost
