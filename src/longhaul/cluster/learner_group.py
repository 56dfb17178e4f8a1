"""Several learners that apply every update together, by torch's process group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from longhaul.cluster.config import LEADER, Rank
from longhaul.core.metrics import Metrics
from longhaul.core.parts import LearnerProtocol
from longhaul.core.rollout import Rollout
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.learn.minibatches import LearnerGroup

PATIENCE = timedelta(hours=24)  # a rollout may take long; a dead leader is noticed at once


class ProcessGroup(LearnerGroup):
    """Learners of torch's process group; sums are the same, bit for bit, in every process."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        dist.init_process_group("gloo", rank=rank.number, world_size=rank.size, timeout=PATIENCE)

    @property
    def size(self) -> int:
        """How many learners there are."""
        return self._rank.size

    def part(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return this learner's part of a minibatch."""
        return np.array_split(items, self._rank.size)[self._rank.number]

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace every tensor by its sum, in one message for each kind of number."""
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
            same = [tensor for tensor in tensors if tensor.dtype == dtype]
            flat = torch.cat([tensor.detach().reshape(-1) for tensor in same])
            dist.all_reduce(flat)
            ends = np.cumsum([tensor.numel() for tensor in same]).tolist()
            with torch.no_grad():
                for tensor, begin, end in zip(same, [0, *ends[:-1]], ends, strict=True):
                    tensor.copy_(flat[begin:end].view_as(tensor))

    def broadcast(self, word: GroupUpdate | None) -> GroupUpdate | None:
        """Send the leader's update to every process, and return it."""
        said: list[Any] = [word]
        dist.broadcast_object_list(said, src=LEADER)
        heard: GroupUpdate | None = said[0]
        return heard

    def close(self) -> None:
        """Leave the process group."""
        dist.destroy_process_group()


@dataclass(frozen=True, slots=True)
class GroupUpdate:
    """One rollout to learn from together."""

    rollout: Rollout
    settings: Settings
    state: State | None
    """The learner's state, if the others may have another one: at the start and after a resume."""


class GroupChannel(Protocol):
    """Sends every update to every process."""

    def broadcast(self, word: GroupUpdate | None) -> GroupUpdate | None:
        """Send the leader's update to every process, and return it."""

    def close(self) -> None:
        """Leave the group."""


class LeadingLearner:
    """The learner of the process that has the run; the others apply the same updates."""

    def __init__(self, inner: LearnerProtocol, group: GroupChannel) -> None:
        self._inner = inner
        self._group = group
        self._is_news = True
        self._is_learning = False

    def update(self, rollout: Rollout, settings: Settings) -> Metrics:
        """Learn from one rollout, all together."""
        state = self._inner.state_dict() if self._is_news else None
        self._is_news, self._is_learning = False, True
        self._group.broadcast(GroupUpdate(rollout, settings, state))
        metrics = self._inner.update(rollout, settings)
        self._is_learning = False
        return metrics

    def state_dict(self) -> State:
        """Return the learner's state, which is that of all of them."""
        return self._inner.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state; the others get it with the next rollout."""
        self._inner.load_state_dict(state)
        self._is_news = True

    def close(self) -> None:
        """End the other processes; not in the middle of an update, when they do not listen."""
        if not self._is_learning:
            self._group.broadcast(None)
        self._group.close()


def follow(inner: LearnerProtocol, group: GroupChannel) -> int:
    """Apply the leader's updates until it shuts down; return their number."""
    updates = 0
    while (update := group.broadcast(None)) is not None:
        if update.state is not None:
            inner.load_state_dict(update.state)
        inner.update(update.rollout, update.settings)
        updates += 1
    group.close()
    return updates
