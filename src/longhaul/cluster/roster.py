"""Keeping every seat taken: who joins, who died or hangs, and whoever takes their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from longhaul.cluster.config import ClusterConfig
from longhaul.cluster.errors import ClusterError
from longhaul.cluster.fleet import Answered, Died, Fleet, Joined
from longhaul.cluster.messages import Fragment
from longhaul.cluster.quorum import FragmentTimes
from longhaul.cluster.reports import Reports
from longhaul.cluster.seats import Seat
from longhaul.cluster.worker import Hello
from longhaul.envs.faults import Fault, FaultKind

LOOK_SECONDS = 1.0  # the longest sleep between two looks at deadlines
SETTLING_SECONDS = 10.0  # without another collector joining, before a run begins with fewer


class Roster:
    """Hires collectors for all seats, and again whenever one is lost."""

    def __init__(
        self,
        fleet: Fleet,
        config: ClusterConfig,
        reports: Reports,
        lose: Callable[[Seat], None],
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
        self.seats: list[Seat] = []
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

    def _hire(self, seat: Seat) -> None:
        seat.hello, seat.vacant_since = None, self._clock()
        self._fleet.hire(seat.share, seat.newest_state)

    def is_expected(self, seat: Seat) -> bool:
        """Whether a fragment of this seat is there or may come soon."""
        if seat.fragment is not None or (seat.is_live and seat.is_busy):
            return True
        # If all are needed, then also one that died and will be back soon.
        vacant = self._clock() - seat.vacant_since
        waits = self._config.quorum == 1 and seat.deaths > 0
        return waits and not seat.is_live and vacant < self._config.start_seconds

    def hear(self, seconds: float) -> Sequence[tuple[Seat, Fragment]]:
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

    def _welcome(self, seat: Seat, hello: Hello) -> None:
        seat.hello = hello
        self._reports.note(
            "collector_joined",
            collector=seat.share.collector,
            host=hello.host,
            process=hello.pid,
            seconds=round(self._clock() - seat.vacant_since, 3),
        )

    def _bury(self, seat: Seat, kind: FaultKind, error: str) -> None:
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

    def _is_hung(self, seat: Seat) -> bool:
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
