"""Rollouts by remote collectors, which may be late, die and be replaced."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longhaul.cluster.config import ClusterConfig, count_collectors, share_out
from longhaul.cluster.fleet import CollectorFleet
from longhaul.cluster.join import join
from longhaul.cluster.ledger import StartShares, TransitionLedger
from longhaul.cluster.messages import Ask, Fragment, PolicyWeights, Reports, nbytes
from longhaul.cluster.roster import (
    LOOK_SECONDS,
    CollectOrder,
    CollectorSlot,
    CollectorTally,
    Quorum,
    Roster,
)
from longhaul.core.errors import CheckpointError
from longhaul.core.metrics import Metrics
from longhaul.core.policy import Policy
from longhaul.core.rollout import Rollout
from longhaul.core.settings import Assignment, Settings, SettingValue
from longhaul.core.state import State
from longhaul.envs.starts import listed, tupled

TICK_SECONDS = 0.001  # added to waits, so a rounding error does not prolong them


@dataclass(frozen=True, slots=True)
class Plan:
    """What is collected."""

    env_id: str
    num_envs: int
    rows_per_env: int
    steps: int
    overlap: bool
    """Ask for the next fragments before learning from these."""


class ClusterCollector:
    """Asks collectors for fragments and makes one rollout of those that arrive in time.

    Only the learner decides on weights, settings, hard starts and which fragments are used. A
    collector that dies is replaced by one that begins at the state after its last fragment, so
    with states of tier `snapshot` or `replay` only time is lost, and the ledger reports it.
    """

    def __init__(
        self,
        fleet: CollectorFleet,
        policy: Policy,
        plan: Plan,
        config: ClusterConfig,
        reports: Reports,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.reports = reports
        self.ledger = TransitionLedger(())
        self._fleet = fleet
        self._policy = policy
        self._plan = plan
        self._config = config
        self._clock = clock
        self._quorum = Quorum(config.quorum, config.patience)
        self._roster = Roster(fleet, config, reports, self._lose, env_id=plan.env_id, clock=clock)
        self._tally = CollectorTally()
        self._starts = StartShares(0)
        self._version = 0  # updates since the run began
        self._published: tuple[PolicyWeights, object] | None = None
        self._settings: Settings | None = None  # of the last order
        self._restored: State | None = None
        self._begun = False

    def collect(self, settings: Settings) -> Rollout:
        """Return the next rollout; rows of late or lost collectors are marked as absent."""
        began = self._clock()
        if not self._begun:
            self._begin(settings)
        fragments, dropped = self._gather(settings)
        rollout = join(fragments, dropped, rows=self._plan.num_envs * self._plan.rows_per_env)
        for fragment in fragments:
            self._settle(self._roster.seats[fragment.ticket.share.collector])
        self._tally.nbytes += sum(map(nbytes, fragments))
        if self._plan.overlap:
            self._ask_idle(settings)
        self._version += 1
        self._tally.wait_seconds += self._clock() - began
        return rollout

    def _begin(self, settings: Settings) -> None:
        """Hire one collector per share, and wait for them."""
        free = self._fleet.begin()
        if not self._roster.seats:
            self._set_up(count_collectors(self._config, self._plan.num_envs, free_processors=free))
        if self._restored is not None:
            self._resume_orders(self._restored, settings)
            self._restored = None
        self._begun = True
        self._roster.hire_all()

    def _set_up(self, collectors: int) -> None:
        shares = share_out(self._plan.num_envs, collectors)
        self._roster.seats = [CollectorSlot(share) for share in shares]
        self.ledger = TransitionLedger(shares)
        self._starts = StartShares(collectors)

    def _gather(self, settings: Settings) -> tuple[list[Fragment], list[Fragment]]:
        """Return the fragments to learn from, and those that are too old."""
        roster = self._roster
        dropped = self._drop_stale()
        self._ask_idle(settings)
        quorate_since: float | None = None
        while True:
            arrived, expected = self._count()
            now, usual = self._clock(), roster.times.usual
            if arrived < self._quorum.needed(expected):
                quorate_since = None
            elif quorate_since is None:
                quorate_since = now
            waited = 0.0 if quorate_since is None else now - quorate_since
            if self._quorum.is_enough(arrived, expected, waited=waited, usual=usual):
                break
            left = LOOK_SECONDS
            if quorate_since is not None:
                left = min(left, self._quorum.left(waited=waited, usual=usual) + TICK_SECONDS)
            self._hear(left)
            if roster.has_hung:
                # Processing news may take long: collectors that answered meanwhile are not hung.
                self._hear(0.0)
                roster.replace_hung()
            roster.demand()
            dropped += self._drop_stale()
            self._ask_idle(settings)
        return [seat.fragment for seat in roster.seats if seat.fragment is not None], dropped

    def _count(self) -> tuple[int, int]:
        """Return how many fragments have arrived, and how many are expected."""
        seats = self._roster.seats
        arrived = sum(seat.fragment is not None for seat in seats)
        return arrived, sum(self._roster.is_expected(seat) for seat in seats)

    def _hear(self, seconds: float) -> None:
        """Wait for news, and keep the fragments that arrived."""
        reports = self.reports
        reports.signal.begin_step()
        for seat, fragment in self._roster.hear(seconds):
            reports.signal.end_step()
            seat.fragment = fragment
            for fault in fragment.faults:
                reports.listeners.on_fault(fault)
            for repro in fragment.repros:
                reports.listeners.on_repro(repro)

    def _lose(self, seat: CollectorSlot) -> None:
        """Settle the ticket of a lost collector."""
        assert seat.ticket is not None
        self.ledger.settle(seat.ticket, "lost")
        self._note_unused("fragment_lost", seat)
        seat.ticket = None

    def _drop_stale(self) -> list[Fragment]:
        """Settle fragments whose weights are too old; return them."""
        dropped = []
        for seat in self._roster.seats:
            fragment = seat.fragment
            if fragment is not None and self._lag(fragment.version) > self._config.max_lag:
                self._note_unused("fragment_dropped", seat, lag=self._lag(fragment.version))
                self._settle(seat, is_dropped=True)
                dropped.append(fragment)
        return dropped

    def _lag(self, version: int) -> int:
        return self._version - version

    def _note_unused(self, event: str, seat: CollectorSlot, **facts: int) -> None:
        ticket = seat.ticket
        assert ticket is not None
        self.reports.note(
            event,
            collector=ticket.share.collector,
            first_env=ticket.share.first,
            envs=ticket.share.count,
            begin=ticket.begin,
            transitions=ticket.transitions,
            **facts,
        )

    def _settle(self, seat: CollectorSlot, *, is_dropped: bool = False) -> None:
        """Settle a fragment; its collector is free for the next order."""
        fragment = seat.fragment
        assert fragment is not None
        self.ledger.settle(fragment.ticket, "dropped" if is_dropped else "learned")
        self._starts.dealt(seat.share.collector, fragment.rollout.starts_dealt)
        if not is_dropped:
            self._tally.lags.append(self._lag(fragment.version))
        seat.state = fragment.state
        seat.order = seat.ticket = seat.fragment = None

    def _ask_idle(self, settings: Settings) -> None:
        """Ask every idle collector: repeat its order, or give a new one with present weights."""
        idle = [seat for seat in self._roster.seats if seat.is_idle]
        for number, seat in enumerate(idle):
            if seat.order is None or self._lag(seat.order.version) > self._config.max_lag:
                seat.order = self._new_order(seat, settings, waiting=len(idle) - number)
            order = seat.order
            seat.ticket = self.ledger.ask(seat.share.collector, self._plan.steps)
            seat.asked_at = self._clock()
            self._fleet.ask(Ask(seat.ticket, order.settings, order.is_new_deal), order.weights)

    def _new_order(self, seat: CollectorSlot, settings: Settings, *, waiting: int) -> CollectOrder:
        self._settings = settings
        weights = self._publish()
        share = self._starts.share(settings, seat.share.collector, waiting=waiting)
        return CollectOrder(self._version, weights, share.settings, share.is_fresh)

    def _publish(self) -> object:
        """Publish the present weights, once per update."""
        if self._published is None or self._published[0].version != self._version:
            began = self._clock()
            weights = PolicyWeights.of(self._version, self._policy.state_dict())
            self._published = (weights, self._fleet.publish(weights))
            self._tally.put_seconds += self._clock() - began
        return self._published[1]

    def timings(self) -> Metrics:
        """Return the totals of the ledger, and counts since the last call."""
        tally, self._tally = self._tally, CollectorTally()
        found = {
            "cluster/collectors": float(self._roster.live),
            "cluster/fragments": float(len(tally.lags)),
            "cluster/deaths": float(self._roster.deaths),
            "cluster/fragment_seconds": self._roster.times.usual,
            "cluster/fragment_megabytes": tally.nbytes / 1e6,
            "cluster/put_ms": 1000.0 * tally.put_seconds,
            "cluster/wait_seconds": tally.wait_seconds,
        }
        if tally.lags:
            found["cluster/lag_mean"] = sum(tally.lags) / len(tally.lags)
            found["cluster/lag_max"] = float(max(tally.lags))
        totals = self.ledger.check().as_row()
        return {**found, **{f"cluster/{name}": float(count) for name, count in totals.items()}}

    def close(self) -> None:
        """End all collectors; fragments in progress are discarded."""
        if self._begun:
            self.reports.note("cluster_balance", **self.ledger.check().as_row())
        self._fleet.close()

    def state_dict(self) -> State:
        """Return the state of every collector, and the weights of pending orders."""
        settings = {} if self._settings is None else self._settings.values()
        seats = self._roster.seats
        return {
            "collectors": len(seats),
            "version": self._version,
            "published": -1 if self._published is None else self._published[0].version,
            "weights": {} if self._published is None else self._published[0].tensors(),
            "settings": {name: listed(value) for name, value in settings.items()},
            "ledger": self.ledger.state_dict(),
            "starts": self._starts.state_dict(),
            "seats": [{"state": s.state, "is_asked": s.order is not None} for s in seats],
        }

    def load_state_dict(self, state: State) -> None:
        """Restore the saved collectors; pending fragments are collected again."""
        if "seats" not in state:
            raise CheckpointError(
                "the checkpoint was written by a run that collected in its own process; resume it "
                "with cluster.address = ''"
            )
        if not state["collectors"]:
            return
        self._set_up(int(state["collectors"]))
        self.ledger.load_state_dict(state["ledger"])
        self._starts.load_state_dict(state["starts"])
        self._version = int(state["version"])
        for seat, saved in zip(self._roster.seats, state["seats"], strict=True):
            seat.state = saved["state"]
        self._restored = state

    def _resume_orders(self, state: State, settings: Settings) -> None:
        """Repeat the orders that were pending when the state was saved."""
        both = zip(self._roster.seats, state["seats"], strict=True)
        asked = [seat for seat, saved in both if saved["is_asked"]]
        if not asked:
            return
        present, self._version = self._version, int(state["published"])
        weights = PolicyWeights.of(self._version, state["weights"])
        self._published = (weights, self._fleet.publish(weights))
        then = settings.with_(_assignments(state["settings"]))
        for number, seat in enumerate(asked):
            seat.order = self._new_order(seat, then, waiting=len(asked) - number)
        self._version = present


def _assignments(values: State) -> Sequence[Assignment]:
    restored: dict[str, SettingValue | None] = {n: tupled(v) for n, v in values.items()}
    return [Assignment(name, value) for name, value in restored.items() if value is not None]
