"""W7 and W8: fresh starts first, the hardest spared, those that fail again and again set aside."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.errors import ConfigError
from longhaul.tasks.fish.hard_starts.laps import (
    LONGEST,
    Candidate,
    LapRules,
    Replays,
    hardest,
    make_lap,
    settle,
)

ABC = tuple(Candidate(name) for name in "abc")


def test_equal_starts_are_dealt_in_their_order_once_each() -> None:
    assert make_lap(ABC, {}, LapRules(), iteration=0) == ("a", "b", "c")


def test_weights_are_shares_of_a_lap_and_well_mixed() -> None:
    lap = make_lap([Candidate("a", 3.0), Candidate("b", 1.0)], {}, LapRules(), iteration=0)
    assert Counter(lap) == {"a": 3, "b": 1}
    assert lap[0] == "a"
    assert "b" in lap[:3]


def test_decay_prefers_what_was_replayed_least() -> None:
    history = {"a": Replays(4), "b": Replays(2)}
    lap = make_lap(ABC, history, LapRules(decay=0.5), iteration=9)
    counts = Counter(lap)
    assert lap[0] == "c"
    assert counts["c"] > counts["b"] > counts["a"] > 0


def test_decay_leaves_starts_alone_that_were_replayed_equally_often() -> None:
    history = {name: Replays(5000) for name in "abc"}
    assert make_lap(ABC, history, LapRules(decay=0.5), iteration=9) == ("a", "b", "c")


def test_a_start_that_fails_again_and_again_rests_and_comes_back() -> None:
    rules = LapRules(window=3, lost=0.5, rest=10)
    history = {"a": Replays().after(2, 0.6, window=3)}
    assert settle(history, rules, 5) == history
    history["a"] = history["a"].after(1, 0.5, window=3)
    settled = settle(history, rules, 6)
    assert (settled["a"].out_until, settled["a"].recent) == (16, ())
    assert make_lap(ABC, settled, rules, iteration=15) == ("b", "c")
    assert make_lap(ABC, settled, rules, iteration=16) == ("a", "b", "c")


def test_one_good_replay_saves_a_start_from_being_set_aside() -> None:
    rules = LapRules(window=3, lost=0.5)
    replays = Replays().after(2, 0.9, window=3).after(1, 0.1, window=3).after(2, 0.9, window=3)
    assert settle({"a": replays}, rules, 5)["a"].out_until == 0


def test_a_stage_whose_starts_are_all_set_aside_deals_them_all_the_same() -> None:
    history = {name: Replays(3, (), 99) for name in "abc"}
    assert make_lap(ABC, history, LapRules(window=3), iteration=9) == ("a", "b", "c")


def test_the_hardest_are_those_that_lost_most_and_never_all() -> None:
    history = {
        "a": Replays(2, (0.2, 0.4)),
        "b": Replays(1, (0.9,)),
        "c": Replays(1, (0.5,)),
    }
    assert hardest(ABC, history, 0.4) == {"b"}
    assert hardest(ABC, history, 0.99) == {"b", "c"}
    assert hardest(ABC, {}, 0.99) == frozenset()
    assert hardest(ABC[:1], history, 0.99) == frozenset()


@pytest.mark.parametrize(
    "fields",
    [{"decay": 0}, {"decay": 1.1}, {"lost": 2}, {"spared": 1}, {"window": -1}, {"rest": 0}],
)
def test_rules_that_cannot_be_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"options\.tail\."):
        LapRules(**fields)  # type: ignore[arg-type]  # whole numbers are floats too


@given(
    weights=st.lists(st.floats(0.01, 100), min_size=1, max_size=8),
    counts=st.lists(st.integers(0, 2000), min_size=8, max_size=8),
    decay=st.floats(0.1, 1),
)
def test_a_lap_is_never_empty_nor_much_longer_than_its_starts(
    weights: list[float], counts: list[int], decay: float
) -> None:
    candidates = [Candidate(str(k), weight) for k, weight in enumerate(weights)]
    history = {str(k): Replays(count) for k, count in enumerate(counts)}
    lap = make_lap(candidates, history, LapRules(decay=decay), iteration=1)
    assert len(weights) <= len(lap) <= LONGEST * len(weights)
    taken = Counter(lap)
    if len(set(counts[: len(weights)])) == 1:
        heaviest = max(candidates, key=lambda c: c.weight)
        assert taken[heaviest.id] == max(taken.values())
