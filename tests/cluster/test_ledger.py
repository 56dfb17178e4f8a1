"""No transition is lost without a word or used twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from longhaul.cluster.config import share_out
from longhaul.cluster.ledger import FATES, Fate, LedgerError, Ticket, TransitionLedger
from tests.engine.comparing import through_checkpoint

SHARES = share_out(7, 3)


class LedgerStory(RuleBasedStateMachine):
    """Any course of asking and settling, against a list of single transitions."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = TransitionLedger(SHARES)
        self.open: dict[int, Ticket] = {}
        self.closed: list[Ticket] = []
        self.fates: dict[tuple[int, int], Fate] = {}  # by environment and number

    @rule(collector=st.integers(0, 2), steps=st.integers(1, 5))
    def ask(self, collector: int, steps: int) -> None:
        if collector in self.open:
            with pytest.raises(LedgerError, match="asked again"):
                self.ledger.ask(collector, steps)
        else:
            self.open[collector] = self.ledger.ask(collector, steps)

    @precondition(lambda self: self.open)
    @rule(which=st.integers(0, 2), fate=st.sampled_from(FATES))
    def settle(self, which: int, fate: Fate) -> None:
        collector = sorted(self.open)[which % len(self.open)]
        ticket = self.open.pop(collector)
        self.ledger.settle(ticket, fate)
        self.closed.append(ticket)
        for env in range(ticket.share.first, ticket.share.first + ticket.share.count):
            for number in range(ticket.begin, ticket.begin + ticket.steps):
                assert (env, number) not in self.fates, "a transition was settled twice"
                self.fates[env, number] = fate

    @precondition(lambda self: self.closed)
    @rule(which=st.integers(0, 1000), fate=st.sampled_from(FATES))
    def settle_again(self, which: int, fate: Fate) -> None:
        with pytest.raises(LedgerError, match="twice"):
            self.ledger.settle(self.closed[which % len(self.closed)], fate)

    @rule()
    def restart(self) -> None:
        """What is under way is forgotten by a restart and asked for again by the same numbers."""
        saved = through_checkpoint(self.ledger.state_dict())
        self.ledger = TransitionLedger(SHARES)
        self.ledger.load_state_dict(saved)
        for collector, ticket in self.open.items():
            again = self.ledger.ask(collector, ticket.steps)
            assert (again.begin, again.share) == (ticket.begin, ticket.share)
            assert again.number != ticket.number, "an answer from before must not fit"
            assert not self.ledger.is_open(ticket)
            self.open[collector] = again

    @invariant()
    def balances(self) -> None:
        found = self.ledger.check()
        counted = {fate: sum(one == fate for one in self.fates.values()) for fate in FATES}
        assert (found.learned, found.dropped, found.lost) == tuple(counted[f] for f in FATES)
        assert found.under_way == sum(ticket.transitions for ticket in self.open.values())
        assert found.is_even

    @invariant()
    def leaves_no_hole(self) -> None:
        for env in range(7):
            numbers = sorted(number for e, number in self.fates if e == env)
            assert numbers == list(range(len(numbers)))


LedgerStory.TestCase.settings = settings(max_examples=25, stateful_step_count=20)
TestLedgerStory = LedgerStory.TestCase


@given(st.integers(1, 40), st.integers(1, 40))
def test_shares_are_disjoint_complete_and_even(num_envs: int, collectors: int) -> None:
    collectors = min(collectors, num_envs)
    shares = share_out(num_envs, collectors)
    envs = [share.first + k for share in shares for k in range(share.count)]
    assert envs == list(range(num_envs))
    assert max(s.count for s in shares) - min(s.count for s in shares) <= 1


def test_a_forged_ticket_is_refused() -> None:
    ledger = TransitionLedger(SHARES)
    ticket = ledger.ask(1, 4)
    for forged in (replace(ticket, begin=4), replace(ticket, steps=5), replace(ticket, number=9)):
        with pytest.raises(LedgerError):
            ledger.settle(forged, "learned")
    ledger.settle(ticket, "learned")


def test_an_account_that_does_not_add_up_is_told_of() -> None:
    ledger = TransitionLedger(SHARES)
    ledger.settle(ledger.ask(0, 4), "learned")
    state = ledger.state_dict()
    state["learned"][1] -= 1
    with pytest.raises(LedgerError, match="of 4 transitions asked of environment 1, 3 are"):
        TransitionLedger(SHARES).load_state_dict(state)
