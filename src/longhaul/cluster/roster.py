"""Keeping every seat taken: who joins, who died or hangs, and whoever takes their place."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median
from typing import Any, Protocol

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from longhaul.cluster.config import LEADER, ClusterConfig, Rank
from longhaul.cluster.connect import ClusterError
from longhaul.cluster.fleet import Answered, CollectorFleet, Died, Joined
from longhaul.cluster.messages import CollectorHello, Fragment, Reports
from longhaul.cluster.seats import CollectorSlot
from longhaul.core.metrics import Metrics
from longhaul.core.parts import LearnerProtocol
from longhaul.core.rollout import Rollout
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.envs.faults import Fault, FaultKind

REMEMBERED = 64
HUNG_FACTOR = 20.0
"""Times the usual time of a fragment, as for environments in worker processes."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """How many fragments an update needs, and how long the others are waited for."""

    share: float
    patience: float

    def needed(self, expected: int) -> int:
        """Return the fragments needed of so many collectors at work; never none."""
        # Rounded first: a share of 0.1 of ten collectors is one, whatever floating point says.
        return max(1, math.ceil(round(self.share * expected, 9)))

    def is_enough(self, arrived: int, expected: int, *, waited: float, usual: float) -> bool:
        """Whether to go on; `waited` is the time since as many as needed were there."""
        if arrived < self.needed(expected):
            return False
        return arrived >= expected or waited >= self.patience * usual

    def left(self, *, waited: float, usual: float) -> float:
        """Return how much longer the others are waited for, once enough are there."""
        return max(0.0, self.patience * usual - waited)


class FragmentTimes:
    """The usual time of a fragment, learned from the last ones."""

    def __init__(self, least_deadline: float, first_deadline: float) -> None:
        self._least = least_deadline
        self._first = first_deadline
        self._times: deque[float] = deque(maxlen=REMEMBERED)

    def add(self, seconds: float) -> None:
        """Take one fragment's time into account."""
        self._times.append(seconds)

    @property
    def usual(self) -> float:
        """The median; 0 before there is any."""
        return median(self._times) if self._times else 0.0

    @property
    def deadline(self) -> float:
        """The seconds after which a collector that has not answered counts as hung."""
        if not self._times:
            return max(self._first, self._least)  # it may have to compile first
        return max(self._least, HUNG_FACTOR * self.usual)


LOOK_SECONDS = 1.0  # the longest sleep between two looks at deadlines
SETTLING_SECONDS = 10.0  # without another collector joining, before a run begins with fewer


class Roster:
    """Hires collectors for all seats, and again whenever one is lost."""

    def __init__(
        self,
        fleet: CollectorFleet,
        config: ClusterConfig,
        reports: Reports,
        lose: Callable[[CollectorSlot], None],
        *,
        env_id: str,
        clock: Callable[[], float],
    ) -> None:
        self._fleet = fleet
        self._config = config
        self._reports = reports
        self._lose = lose
        self._env_id = env_id
        self._clock = clock
        self.times = FragmentTimes(config.least_deadline_seconds, config.start_seconds)
        self.seats: list[CollectorSlot] = []
        self.deaths = 0

    @property
    def live(self) -> int:
        """Collectors that are there."""
        return sum(seat.is_live for seat in self.seats)

    def muster(self) -> None:
        """Hire for all seats and wait for collectors to join: all, unless fewer are enough."""
        for seat in self.seats:
            self._hire(seat)
        began = last = self._clock()
        while self.live < len(self.seats):
            before = self.live
            self.hear(LOOK_SECONDS)
            self.demand()
            now = self._clock()
            last = now if self.live > before else last
            is_over = now - began > self._config.start_seconds
            is_settled = self._config.quorum < 1 and now - last > SETTLING_SECONDS
            if self.live and (is_over or is_settled):
                self._reports.note("cluster_waits", collectors=self.live, hired=len(self.seats))
                return

    def _hire(self, seat: CollectorSlot) -> None:
        seat.hello, seat.vacant_since = None, self._clock()
        self._fleet.hire(seat.share, seat.newest_state)

    def is_expected(self, seat: CollectorSlot) -> bool:
        """Whether a fragment of this seat is there or may come soon."""
        if seat.fragment is not None or (seat.is_live and seat.is_busy):
            return True
        # If all are needed, then also one that died and will be back soon.
        vacant = self._clock() - seat.vacant_since
        waits = self._config.quorum == 1 and seat.deaths > 0
        return waits and not seat.is_live and vacant < self._config.start_seconds

    def hear(self, seconds: float) -> Sequence[tuple[CollectorSlot, Fragment]]:
        """Take in what happened, within this time; return the fragments that were waited for."""
        answers = []
        for news in self._fleet.news(seconds):
            seat = self.seats[news.collector]
            match news:
                case Joined(_, hello):
                    self._welcome(seat, hello)
                case Died(_, error):
                    self._bury(seat, "died", error)
                case Answered(_, fragment):
                    # One of a ticket that was given up is counted as lost already.
                    if seat.is_busy and seat.ticket == fragment.ticket:
                        seat.deaths = 0
                        self.times.add(fragment.seconds)
                        answers.append((seat, fragment))
        return answers

    def _welcome(self, seat: CollectorSlot, hello: CollectorHello) -> None:
        seat.hello = hello
        self._reports.note(
            "collector_joined",
            collector=seat.share.collector,
            host=hello.host,
            process=hello.pid,
            seconds=round(self._clock() - seat.vacant_since, 3),
        )

    def _bury(self, seat: CollectorSlot, kind: FaultKind, error: str) -> None:
        """Give up a collector and what it was doing, and hire another one."""
        collector = seat.share.collector
        seat.deaths += 1
        self.deaths += 1
        pid = None if seat.hello is None else seat.hello.pid
        words = f"collector {collector}: {error}"
        self._reports.listeners.on_fault(
            Fault(kind, collector, pid, "collect", words, self._env_id)
        )
        if seat.is_busy:
            self._lose(seat)
        if seat.deaths > self._config.most_deaths:
            raise ClusterError(
                f"collector {collector} died {seat.deaths} times in a row "
                f"(cluster.most_deaths = {self._config.most_deaths}); the last time: {error}"
            )
        self._hire(seat)

    def _is_hung(self, seat: CollectorSlot) -> bool:
        silent = self._clock() - seat.asked_at
        return seat.is_live and seat.is_busy and silent > self.times.deadline

    @property
    def has_hung(self) -> bool:
        """Whether somebody has not been heard of for too long."""
        return any(self._is_hung(seat) for seat in self.seats)

    def replace_hung(self) -> None:
        """End collectors that have not answered for too long."""
        for seat in self.seats:
            if self._is_hung(seat):
                self._fleet.dismiss(seat.share.collector)
                self._bury(seat, "hung", f"no answer for {self.times.deadline:.0f} s")

    def demand(self) -> None:
        """Raise if nobody has been there to collect for too long."""
        if self.live or any(seat.fragment is not None for seat in self.seats):
            return
        limit = self._config.start_seconds
        if self._clock() - max(seat.vacant_since for seat in self.seats) > limit:
            raise ClusterError(
                f"none of {len(self.seats)} collectors is at work after {limit:g} s "
                "(cluster.start_seconds); each needs cluster.cpus_per_collector = "
                f"{self._config.cpus_per_collector:g} processors: see `ray status`"
            )


PATIENCE = timedelta(hours=24)  # a rollout may take its time; a dead leader is noticed at once


class ProcessGroup:
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

    def tell(self, word: GroupUpdate | None) -> GroupUpdate | None:
        """Hand what the leader says to everybody, and return it."""
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
    """The learner's, if the others may have another one: at the beginning and after a resume."""


class GroupChannel(Protocol):
    """Carries what is learned from to every process."""

    def tell(self, word: GroupUpdate | None) -> GroupUpdate | None:
        """Hand what the leader says to everybody, and return it."""

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
        self._group.tell(GroupUpdate(rollout, settings, state))
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
        """End the other processes; in the middle of an update none of them would hear it."""
        if not self._is_learning:
            self._group.tell(None)
        self._group.close()


def follow(inner: LearnerProtocol, group: GroupChannel) -> int:
    """Apply the leader's updates until it shuts down; return their number."""
    updates = 0
    while (update := group.tell(None)) is not None:
        if update.state is not None:
            inner.load_state_dict(update.state)
        inner.update(update.rollout, update.settings)
        updates += 1
    group.close()
    return updates
