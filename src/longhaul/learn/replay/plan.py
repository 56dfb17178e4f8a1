"""How many sequences fit into the memory replay may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from torch import Tensor

from longhaul.core.errors import ConfigError
from longhaul.core.rollout import Rollout
from longhaul.learn.config import ReplayConfig

MEGABYTE = 1 << 20
NUMBERS = ("log_prob", "reward", "value")
FLAGS = ("terminated", "truncated", "started", "active", "forced", "lost")
_PRIORITY_BYTES = 8 + 4 * 8  # a priority and its share of the tree, at its least full

Item = np.dtype[Any]
"""One array kept per step or per sequence: a dtype with a shape."""


def item(dtype: DTypeLike, shape: tuple[int, ...]) -> Item:
    """Return the dtype of arrays of this shape."""
    return np.dtype((dtype, shape))


@dataclass(frozen=True, slots=True)
class ReplayLayout:
    """What is kept of one sequence."""

    length: int
    obs: Mapping[str, Item]  # per step, and once more for what was seen after the last one
    action: Item  # per step
    choices: int  # width of the action mask, 0 without one
    memory: Mapping[str, Item]  # before the first step and after the last one

    @staticmethod
    def of(pieces: Rollout) -> ReplayLayout:
        """Return the layout of a rollout that is cut up into sequences."""

        def kept(part: Tensor) -> Item:
            return item(part.numpy().dtype, part.shape[2:])

        return ReplayLayout(
            length=pieces.steps,
            obs={name: kept(part) for name, part in pieces.obs.items()},
            action=kept(pieces.action),
            choices=0 if pieces.mask is None else pieces.mask.shape[2],
            memory={name: kept(part) for name, part in pieces.memory.items()},
        )

    @property
    def sequence_bytes(self) -> int:
        """Bytes of one sequence with its priority."""
        seen = sum(kept.itemsize for kept in self.obs.values())
        remembered = sum(kept.itemsize for kept in self.memory.values())
        per_step = self.action.itemsize + self.choices + 4 * len(NUMBERS) + len(FLAGS) + 4
        return (
            seen * (self.length + 1)
            + per_step * self.length
            + 2 * remembered
            + 4  # the value of what was seen after the last step
            + _PRIORITY_BYTES
        )

    @property
    def cut_bytes(self) -> int:
        """Bytes of one last observation within a sequence, with whose it is."""
        return (
            sum(kept.itemsize for kept in (*self.obs.values(), *self.memory.values())) + 4 + 2 * 4
        )


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """How many sequences are kept."""

    sequences: int
    cuts: int  # last observations of truncated steps within sequences
    wanted: int  # sequences that were configured
    length: int
    nbytes: int
    limit_megabytes: float

    @staticmethod
    def of(layout: ReplayLayout, config: ReplayConfig) -> ReplayPlan:
        """Return what fits into the configured memory."""
        wanted = max(1, config.capacity // layout.length)
        limit = int(config.memory_megabytes * MEGABYTE)
        each = layout.sequence_bytes + config.cut_room * layout.cut_bytes
        sequences = min(wanted, int(limit / each))
        cuts = int(sequences * config.cut_room)
        return ReplayPlan(
            sequences,
            cuts,
            wanted,
            layout.length,
            sequences * layout.sequence_bytes + cuts * layout.cut_bytes,
            config.memory_megabytes,
        )

    @property
    def notice(self) -> str:
        """The warning for a memory smaller than configured; empty if it is not."""
        if self.sequences == self.wanted:
            return ""
        return (
            f"replay keeps {self.sequences * self.length:,} transitions instead of "
            f"{self.wanted * self.length:,}: that is what fits into "
            f"learn.replay.memory_megabytes = {self.limit_megabytes:g}"
        )

    def demand(self, rollout_sequences: int) -> None:
        """Raise a ConfigError if not even one rollout can be kept."""
        if rollout_sequences <= self.sequences:
            return
        keeps, brings = self.sequences * self.length, rollout_sequences * self.length
        remedy = "capacity" if self.sequences == self.wanted else "memory_megabytes"
        raise ConfigError(
            f"replay keeps {keeps:,} transitions, but one rollout brings {brings:,}; "
            f"raise learn.replay.{remedy}, or lower num_envs or collect.num_steps"
        )
