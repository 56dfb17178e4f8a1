"""All collectors together deal what one would have dealt."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.cluster.ledger import StartShares
from longhaul.core.settings import Settings
from longhaul.envs.starts import STARTS, STARTS_LIMIT, StartDealer
from tests.engine.comparing import through_checkpoint

BARE = Settings([])


def offered(starts: tuple[int, ...], limit: int = 0) -> Settings:
    return Settings([STARTS, STARTS_LIMIT], {STARTS.name: starts, STARTS_LIMIT.name: limit})


class Team:
    """Collectors as far as hard starts go: a real dealer each."""

    def __init__(self, count: int) -> None:
        self.shares = StartShares(count)
        self.dealers = [StartDealer() for _ in range(count)]
        self.dealt: Counter[object] = Counter()

    def begin(self, settings: Settings, asked: list[int]) -> None:
        for number, collector in enumerate(asked):
            told = self.shares.share(settings, collector, waiting=len(asked) - number)
            dealer = self.dealers[collector]
            if told.is_fresh:
                dealer.offer(told.settings.with_([STARTS.to(())]))
            dealer.offer(told.settings)

    def end(self, collector: int, resets: int) -> None:
        given_out = [self.dealers[collector].deal(0, 0) for _ in range(resets)]
        used = [start for start in given_out if start is not None]
        self.dealt.update(used)
        self.shares.dealt(collector, len(used))


@given(st.integers(1, 9), st.integers(0, 30))
def test_without_a_limit_every_start_is_dealt_once(count: int, number: int) -> None:
    team = Team(count)
    starts = tuple(range(number))
    team.begin(offered(starts), list(range(count)))
    for collector in range(count):
        team.end(collector, number)
        team.begin(offered(starts), [collector])  # the same starts are no fresh deal
        team.end(collector, number)
    assert team.dealt == Counter(starts)
    assert team.shares.used == number


def test_a_fresh_deal_is_dealt_even_where_a_collectors_part_is_the_same() -> None:
    team = Team(2)
    for starts in ((1, 2), (1, 3)):
        team.begin(offered(starts), [0, 1])
        team.end(0, 3)
        team.end(1, 3)
    assert team.dealt == Counter({1: 2, 2: 1, 3: 1})


@settings(max_examples=60)
@given(
    st.integers(1, 5),
    st.integers(1, 40),
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.booleans()), max_size=30),
)
def test_a_limit_is_never_passed_and_reached_in_the_end(
    count: int, limit: int, pool: int, story: list[tuple[int, int, bool]]
) -> None:
    team = Team(count)
    told = offered(tuple(range(pool)), limit)
    busy: set[int] = set()
    for which, resets, restarts in story:
        collector = which % count
        if collector in busy:
            team.end(collector, resets)
            busy.remove(collector)
        else:
            team.begin(told, [collector])
            busy.add(collector)
        if restarts and not busy:
            saved = through_checkpoint(team.shares.state_dict())
            team.shares = StartShares(count)
            team.shares.load_state_dict(saved)
        assert team.shares.used <= limit
    for collector in sorted(busy):
        team.end(collector, limit)
    team.begin(told, list(range(count)))
    for collector in range(count):
        team.end(collector, limit)
    assert team.shares.used == sum(team.dealt.values()) == limit


def test_settings_without_starts_are_told_as_they_are() -> None:
    told = StartShares(2).share(BARE, 1, waiting=1)
    assert told.settings is BARE
    assert not told.is_fresh
