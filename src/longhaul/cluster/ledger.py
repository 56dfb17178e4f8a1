"""What became of every transition: asked for, and then learned from, dropped or lost, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from longhaul.cluster.errors import ClusterError
from longhaul.cluster.shares import EnvShare
from longhaul.core.state import State

Fate = Literal["learned", "dropped", "lost"]
FATES: tuple[Fate, ...] = ("learned", "dropped", "lost")


class LedgerError(ClusterError):
    """A transition was about to be used twice, or has gone missing without a word."""


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
    """Transitions of environments since the run began, by what became of them."""

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
        """Whether an answer to this ticket is still waited for."""
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
        """Return the totals, once every single environment's account is found to be even."""
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
        """Return the accounts without what is under way, which a resumed run asks for again."""
        following = self._next.copy()
        for ticket in self._open.values():
            following[self._envs(ticket.share)] -= ticket.steps
        return {
            "tickets": self._tickets,
            "next": following,
            **{fate: counts.copy() for fate, counts in self._settled.items()},
        }

    def load_state_dict(self, state: State) -> None:
        """Go on with saved accounts."""
        self._open.clear()
        self._tickets = int(state["tickets"])
        self._next[...] = state["next"]
        for fate, counts in self._settled.items():
            counts[...] = state[fate]
        self.check()
