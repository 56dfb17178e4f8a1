"""Learners in several processes that take every step together, by torch.distributed."""

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

from longhaul.cluster.rank import LEADER, Rank
from longhaul.core.metrics import Metrics
from longhaul.core.parts import Learner
from longhaul.core.rollout import Rollout
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.learn.team import Team

PATIENCE = timedelta(hours=24)  # a rollout may take its time; a dead leader is noticed at once


class ProcessTeam:
    """A team over torch's process group; sums come out the same, bit for bit, everywhere."""

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

    def tell(self, word: Lesson | None) -> Lesson | None:
        """Hand what the leader says to everybody, and return it."""
        said: list[Any] = [word]
        dist.broadcast_object_list(said, src=LEADER)
        heard: Lesson | None = said[0]
        return heard

    def close(self) -> None:
        """Leave the process group."""
        dist.destroy_process_group()


@dataclass(frozen=True, slots=True)
class Lesson:
    """One rollout to learn from together."""

    rollout: Rollout
    settings: Settings
    state: State | None
    """The learner's, if the others may have another one: at the beginning and after a resume."""


class Teacher(Protocol):
    """Tells everybody what is learned from; a team's own voice."""

    def tell(self, word: Lesson | None) -> Lesson | None:
        """Hand what the leader says to everybody, and return it."""

    def close(self) -> None:
        """Leave the team."""


class JoinableLearner(Learner, Protocol):
    """A learner that can take its steps together with others."""

    def join(self, team: Team) -> None:
        """Learn together with others."""


class LeadingLearner:
    """The learner of the process that has the run; the others learn the same lessons with it."""

    def __init__(self, inner: Learner, team: Teacher) -> None:
        self._inner = inner
        self._team = team
        self._is_news = True
        self._is_learning = False

    def update(self, rollout: Rollout, settings: Settings) -> Metrics:
        """Learn from one rollout, all together."""
        state = self._inner.state_dict() if self._is_news else None
        self._is_news, self._is_learning = False, True
        self._team.tell(Lesson(rollout, settings, state))
        metrics = self._inner.update(rollout, settings)
        self._is_learning = False
        return metrics

    def state_dict(self) -> State:
        """Return the learner's state, which is that of all of them."""
        return self._inner.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state; the others are told with the next rollout."""
        self._inner.load_state_dict(state)
        self._is_news = True

    def close(self) -> None:
        """Let the others go; in the middle of a lesson nobody would hear it."""
        if not self._is_learning:
            self._team.tell(None)
        self._team.close()


def follow(inner: Learner, team: Teacher) -> int:
    """Learn whatever the leader teaches until it lets us go; return how many lessons it were."""
    lessons = 0
    while (lesson := team.tell(None)) is not None:
        if lesson.state is not None:
            inner.load_state_dict(lesson.state)
        inner.update(lesson.rollout, lesson.settings)
        lessons += 1
    team.close()
    return lessons
