"""Accounts of every transition: requested, then learned from, dropped or lost, exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from longhaul.cluster.config import EnvShare
from longhaul.cluster.connect import ClusterError
from longhaul.core.settings import Settings, SettingValue
from longhaul.core.state import State
from longhaul.envs.starts import STARTS, STARTS_LIMIT, listed, tupled

Fate = Literal["learned", "dropped", "lost"]
FATES: tuple[Fate, ...] = ("learned", "dropped", "lost")


class LedgerError(ClusterError):
    """A transition was about to be used twice, or is missing from the accounts."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """One request: transitions `begin` to `begin + steps` of each environment of a share."""

    number: int
    share: EnvShare
    begin: int
    steps: int

    @property
    def transitions(self) -> int:
        """Transitions of environments it asks for."""
        return self.steps * self.share.count


@dataclass(frozen=True, slots=True)
class Balance:
    """Transitions of environments since the run began, by outcome."""

    asked: int
    learned: int
    dropped: int
    lost: int
    under_way: int

    @property
    def is_even(self) -> bool:
        """Whether everything that was asked for is accounted for."""
        return self.asked == self.learned + self.dropped + self.lost + self.under_way

    def as_row(self) -> dict[str, int]:
        """Return plain values for a log."""
        return asdict(self)


class TransitionLedger:
    """Numbers the transitions of every environment and lets each be settled exactly once.

    A collector has at most one open ticket, and a ticket is settled as a whole. So the transitions
    of an environment are settled in order, and those that never came back leave no hole: they are
    counted as lost.
    """

    def __init__(self, shares: Sequence[EnvShare]) -> None:
        self._shares = tuple(shares)
        count = sum(share.count for share in shares)
        self._next: NDArray[np.int64] = np.zeros(count, np.int64)
        self._settled = {fate: np.zeros(count, np.int64) for fate in FATES}
        self._open: dict[int, Ticket] = {}  # by collector
        self._tickets = 0

    def ask(self, collector: int, steps: int) -> Ticket:
        """Open the ticket for a collector's next transitions."""
        if collector in self._open:
            raise LedgerError(f"collector {collector} was asked again before its last answer")
        share = self._shares[collector]
        envs = self._envs(share)
        ticket = Ticket(self._tickets, share, int(self._next[envs][0]), steps)
        self._tickets += 1
        self._next[envs] += steps
        self._open[collector] = ticket
        return ticket

    def is_open(self, ticket: Ticket) -> bool:
        """Whether an answer to this ticket is pending."""
        return self._open.get(ticket.share.collector) == ticket

    def settle(self, ticket: Ticket, fate: Fate) -> None:
        """Close a ticket; one that is closed already, or was never opened, is refused."""
        if not self.is_open(ticket):
            raise LedgerError(
                f"transitions {ticket.begin} to {ticket.begin + ticket.steps} of environments "
                f"{ticket.share.first} to {ticket.share.first + ticket.share.count} are settled "
                "already: they must not be used twice"
            )
        del self._open[ticket.share.collector]
        self._settled[fate][self._envs(ticket.share)] += ticket.steps

    def _envs(self, share: EnvShare) -> slice:
        return slice(share.first, share.first + share.count)

    def balance(self) -> Balance:
        """Return the totals."""
        learned, dropped, lost = (int(self._settled[fate].sum()) for fate in FATES)
        under_way = sum(ticket.transitions for ticket in self._open.values())
        return Balance(int(self._next.sum()), learned, dropped, lost, under_way)

    def check(self) -> Balance:
        """Check the account of every environment and return the totals."""
        expected = sum(self._settled.values(), np.zeros_like(self._next))
        for ticket in self._open.values():
            expected[self._envs(ticket.share)] += ticket.steps
        uneven = np.flatnonzero(expected != self._next)
        if uneven.size:
            env = int(uneven[0])
            raise LedgerError(
                f"of {self._next[env]} transitions asked of environment {env}, {expected[env]} "
                "are accounted for"
            )
        return self.balance()

    def state_dict(self) -> State:
        """Return the accounts without pending tickets, which a resumed run requests again."""
        following = self._next.copy()
        for ticket in self._open.values():
            following[self._envs(ticket.share)] -= ticket.steps
        return {
            "tickets": self._tickets,
            "next": following,
            **{fate: counts.copy() for fate, counts in self._settled.items()},
        }

    def load_state_dict(self, state: State) -> None:
        """Continue with saved accounts."""
        self._open.clear()
        self._tickets = int(state["tickets"])
        self._next[...] = state["next"]
        for fate, counts in self._settled.items():
            counts[...] = state[fate]
        self.check()


Pool = tuple[SettingValue, ...]


@dataclass(frozen=True, slots=True)
class StartShare:
    """The settings sent to one collector, and whether they start a new deal."""

    settings: Settings
    is_fresh: bool


class StartShares:
    """Deals hard starts out among collectors; they never decide how many there are.

    Without a limit every start goes to one collector. With one, what is left of it is split among
    the collectors that are about to begin, and what the others hold stays set aside for them, even
    for one that died: its replacement gets the same.
    """

    def __init__(self, collectors: int) -> None:
        self._dealing: list[Pool] = [()] * collectors  # as of the last answer
        self._sent: list[Pool] = [()] * collectors
        self._used = [0] * collectors
        self._held = [0] * collectors  # starts that a busy collector may still deal

    def share(self, settings: Settings, collector: int, *, waiting: int) -> StartShare:
        """Return the settings for a collector; `waiting` ones, this one included, get some."""
        if STARTS.name not in settings:
            return StartShare(settings, is_fresh=False)
        starts = settings[STARTS]
        is_fresh = starts != self._dealing[collector]
        self._sent[collector] = starts
        self._held[collector] = 0
        limit = settings[STARTS_LIMIT] if STARTS_LIMIT.name in settings else 0
        if not limit:
            own = starts[collector :: len(self._sent)]
            return StartShare(settings.with_([STARTS.to(own)]), is_fresh)
        left = max(0, limit - sum(self._used) - sum(self._held))
        held = -(-left // max(1, waiting))
        self._held[collector] = held
        # A limit of 0 would mean no limit, so a collector that may deal nothing is offered nothing.
        own = self._part(starts, collector) if held else ()
        limited = STARTS_LIMIT.to(self._used[collector] + held)
        return StartShare(settings.with_([STARTS.to(own), limited]), is_fresh)

    def _part(self, starts: Pool, collector: int) -> Pool:
        """Return a collector's part of a pool that is dealt over and over: all of a small one."""
        if not starts or len(starts) >= len(self._sent):
            return starts[collector :: len(self._sent)]
        first = collector % len(starts)
        return starts[first:] + starts[:first]

    def dealt(self, collector: int, count: int) -> None:
        """Count what a collector has dealt; what it held and did not deal is free again."""
        self._used[collector] += count
        self._held[collector] = 0
        self._dealing[collector] = self._sent[collector]

    @property
    def used(self) -> int:
        """Starts dealt since the run began."""
        return sum(self._used)

    def state_dict(self) -> State:
        """Return the counts; pending orders will be repeated."""
        return {"used": list(self._used), "dealing": [listed(pool) for pool in self._dealing]}

    def load_state_dict(self, state: State) -> None:
        """Continue with saved counts."""
        self._used = [int(count) for count in state["used"]]
        pools = [tupled(pool) for pool in state["dealing"]]
        self._dealing = [pool if isinstance(pool, tuple) else () for pool in pools]
        self._sent = list(self._dealing)
        self._held = [0] * len(self._used)
