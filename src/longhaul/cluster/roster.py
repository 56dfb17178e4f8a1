"""The collectors of a run: hiring them, and replacing those that die or hang."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from longhaul.cluster.config import ClusterConfig, EnvShare
from longhaul.cluster.connect import ClusterError
from longhaul.cluster.fleet import Answered, CollectorFleet, Died, Joined
from longhaul.cluster.ledger import Ticket
from longhaul.cluster.messages import CollectorHello, Fragment, Reports
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.envs.faults import Fault, FaultKind


@dataclass(frozen=True, slots=True)
class CollectOrder:
    """What a collector is to do; kept until its fragment is settled, so it can be repeated."""

    version: int
    weights: object
    """The fleet's reference to the weights of that version."""
    settings: Settings
    is_new_deal: bool


@dataclass(slots=True)
class CollectorSlot:
    """One share of the environments and its present collector."""

    share: EnvShare
    state: State | None = None
    """After the last settled fragment; None before the first."""
    order: CollectOrder | None = None
    ticket: Ticket | None = None
    """Open in the ledger until it is settled."""
    fragment: Fragment | None = None
    """Received, but not yet learned from."""
    hello: CollectorHello | None = None
    """None while there is no collector."""
    asked_at: float = 0.0
    vacant_since: float = 0.0
    deaths: int = 0
    """In a row, without a fragment in between."""

    @property
    def is_live(self) -> bool:
        """Whether there is a collector."""
        return self.hello is not None

    @property
    def is_busy(self) -> bool:
        """Whether an answer is pending."""
        return self.ticket is not None and self.fragment is None

    @property
    def is_idle(self) -> bool:
        """Whether a collector is free."""
        return self.is_live and self.ticket is None

    @property
    def newest_state(self) -> State | None:
        """The state that the next collector of this slot begins with."""
        return self.state if self.fragment is None else self.fragment.state


@dataclass(slots=True)
class CollectorTally:
    """Counts since the last call of `timings`."""

    lags: list[int] = field(default_factory=list)
    nbytes: int = 0
    put_seconds: float = 0.0
    wait_seconds: float = 0.0


REMEMBERED = 64
HUNG_FACTOR = 20.0
"""Times the usual time of a fragment, as for environments in worker processes."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """How many fragments an update needs, and how long to wait for the others."""

    share: float
    patience: float

    def needed(self, expected: int) -> int:
        """Return the number of fragments needed of `expected` collectors; at least 1."""
        # Rounded first: a share of 0.1 of ten collectors is one, despite floating-point errors.
        return max(1, math.ceil(round(self.share * expected, 9)))

    def is_enough(self, arrived: int, expected: int, *, waited: float, usual: float) -> bool:
        """Whether to continue; `waited` is the time since the quorum was reached."""
        if arrived < self.needed(expected):
            return False
        return arrived >= expected or waited >= self.patience * usual

    def left(self, *, waited: float, usual: float) -> float:
        """Return how much longer to wait for the others after the quorum was reached."""
        return max(0.0, self.patience * usual - waited)


class FragmentTimes:
    """The usual time of a fragment, learned from the last ones."""

    def __init__(self, least_deadline: float, first_deadline: float) -> None:
        self._least = least_deadline
        self._first = first_deadline
        self._times: deque[float] = deque(maxlen=REMEMBERED)

    def add(self, seconds: float) -> None:
        """Add the time of one fragment."""
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
    """Hires collectors for all slots, and again whenever one is lost."""

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
        """Number of collectors."""
        return sum(seat.is_live for seat in self.seats)

    def hire_all(self) -> None:
        """Hire for all slots and wait for collectors to join: all, unless fewer are enough."""
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
        """Whether a fragment of this slot has arrived or may come soon."""
        if seat.fragment is not None or (seat.is_live and seat.is_busy):
            return True
        # If all are needed, then also one that died and will be back soon.
        vacant = self._clock() - seat.vacant_since
        waits = self._config.quorum == 1 and seat.deaths > 0
        return waits and not seat.is_live and vacant < self._config.start_seconds

    def hear(self, seconds: float) -> Sequence[tuple[CollectorSlot, Fragment]]:
        """Process the news within this time; return the expected fragments."""
        answers = []
        for news in self._fleet.news(seconds):
            seat = self.seats[news.collector]
            match news:
                case Joined(_, hello):
                    self._welcome(seat, hello)
                case Died(_, error):
                    self._replace(seat, "died", error)
                case Answered(_, fragment):
                    # A fragment of an abandoned ticket is already counted as lost.
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

    def _replace(self, seat: CollectorSlot, kind: FaultKind, error: str) -> None:
        """Record the loss of a collector and its fragment, and hire another one."""
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
        """Whether a collector has not answered for too long."""
        return any(self._is_hung(seat) for seat in self.seats)

    def replace_hung(self) -> None:
        """End collectors that have not answered for too long."""
        for seat in self.seats:
            if self._is_hung(seat):
                self._fleet.dismiss(seat.share.collector)
                self._replace(seat, "hung", f"no answer for {self.times.deadline:.0f} s")

    def demand(self) -> None:
        """Raise if there has been no collector for too long."""
        if self.live or any(seat.fragment is not None for seat in self.seats):
            return
        limit = self._config.start_seconds
        if self._clock() - max(seat.vacant_since for seat in self.seats) > limit:
            raise ClusterError(
                f"none of {len(self.seats)} collectors has started within {limit:g} s "
                "(cluster.start_seconds); each needs cluster.cpus_per_collector = "
                f"{self._config.cpus_per_collector:g} processors: see `ray status`"
            )
