from __future__ import annotations

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from longhaul.core.settings import Settings, SettingValue
from longhaul.envs.starts import STARTS, STARTS_LIMIT, StartDealer


def offering(*starts: SettingValue, limit: int = 0) -> Settings:
    return Settings([STARTS, STARTS_LIMIT], {STARTS.name: starts, STARTS_LIMIT.name: limit})


def test_starts_without_a_limit_are_dealt_once() -> None:
    dealer = StartDealer()
    dealer.offer(offering("a", "b"))
    assert [dealer.deal(0, 0) for _ in range(4)] == ["a", "b", None, None]


def test_starts_with_a_limit_are_dealt_over_and_over_up_to_it() -> None:
    dealer = StartDealer()
    dealer.offer(offering("a", "b", limit=5))
    assert [dealer.deal(0, 0) for _ in range(7)] == ["a", "b", "a", "b", "a", None, None]
    dealer.offer(offering("a", "b", limit=7))
    assert [dealer.deal(0, 0) for _ in range(3)] == ["b", "a", None]


def test_a_limit_counts_the_starts_of_all_offers() -> None:
    dealer = StartDealer()
    dealer.offer(offering("a", limit=2))
    dealer.deal(0, 0)
    dealer.offer(offering("b", limit=2))
    assert [dealer.deal(0, 0) for _ in range(2)] == ["b", None]


def test_nothing_is_dealt_where_nothing_is_offered() -> None:
    dealer = StartDealer()
    dealer.offer(offering(limit=9))
    assert dealer.deal(0, 0) is None
    assert dealer.used == 0


def test_a_deal_saved_before_there_was_a_limit_goes_on_without_one() -> None:
    dealer = StartDealer()
    dealer.load_state_dict({"starts": ["a", "b"], "next": 1, "used": 1})
    assert [dealer.deal(0, 0) for _ in range(2)] == ["b", None]


@hypothesis_settings(max_examples=60)
@given(
    offers=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 25), st.integers(0, 6)), min_size=1, max_size=8
    ),
    cut=st.integers(0, 8),
)
def test_a_restart_changes_no_deal_and_no_limit_is_passed(
    offers: list[tuple[int, int, int]], cut: int
) -> None:
    whole, resumed = StartDealer(), StartDealer()
    for number, (size, limit, deals) in enumerate(offers):
        if number == cut:
            again = StartDealer()
            again.load_state_dict(resumed.state_dict())
            resumed = again
        settings = offering(*(f"{size}.{k}" for k in range(size)), limit=limit)
        before = whole.used
        for dealer in (whole, resumed):
            dealer.offer(settings)
        assert [whole.deal(0, 0) for _ in range(deals)] == [
            resumed.deal(0, 0) for _ in range(deals)
        ]
        assert whole.used == resumed.used
        assert whole.used <= max(before, limit) if limit else whole.used <= before + size
