"""Which places are kept, how one is drawn, and that nothing of it is lost in a checkpoint."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.errors import ConfigError
from longhaul.tasks.mario.options import StartOptions
from longhaul.tasks.mario.start_places import Place, StagePlaces

OPTIONS = StartOptions(share=0.5, bin_pixels=100, places_per_bin=2, frontier_bins=1)


def place(reach: int) -> Place:
    return Place(np.full(4, reach % 256, np.uint8), reach)


def filled(*reaches: int) -> StagePlaces:
    places = StagePlaces(OPTIONS)
    for reach in reaches:
        places.end(reach, place(reach))
    return places


def drawn(places: StagePlaces, *, frontier_share: float, times: int = 400) -> Counter[int]:
    source = np.random.default_rng(3)
    found: Counter[int] = Counter()
    for _ in range(times):
        which, stretch, spot = source.random(3).tolist()
        one = places.draw(frontier_share=frontier_share, draws=(which, stretch, spot))
        assert one is not None
        found[one.reach] += 1
    return found


def test_without_places_nothing_is_drawn() -> None:
    assert StagePlaces(OPTIONS).draw(frontier_share=0.5, draws=(0.1, 0.1, 0.1)) is None


def test_the_frontier_is_the_farthest_stretch() -> None:
    assert set(drawn(filled(10, 50, 950, 120), frontier_share=1.0)) == {950}


def test_otherwise_stretches_are_drawn_by_how_many_episodes_ended_there() -> None:
    found = drawn(filled(*[10] * 3, 950), frontier_share=0.0, times=2000)
    assert found[10] / 2000 == pytest.approx(0.75, abs=0.05)


def test_the_oldest_place_of_a_stretch_makes_room() -> None:
    places = filled(10, 20, 30)
    assert places.count == 2
    assert set(drawn(places, frontier_share=0.0)) == {20, 30}


def test_an_end_without_a_place_counts_and_is_never_drawn() -> None:
    places = filled(10)
    places.end(500, None)
    assert set(drawn(places, frontier_share=0.5)) == {10}


def test_ends_of_long_ago_count_less() -> None:
    places = StagePlaces(StartOptions(share=0.5, bin_pixels=100, memory=0.1))
    for _ in range(50):
        places.end(10, place(10))
    for _ in range(250):
        places.fade()
    for _ in range(5):
        places.end(910, place(910))
    found = drawn(places, frontier_share=0.0)
    assert found[910] > found[10]


@given(st.lists(st.tuples(st.integers(0, 3000), st.booleans()), max_size=40))
def test_a_restored_stage_draws_what_the_saved_one_would(ends: list[tuple[int, bool]]) -> None:
    places = StagePlaces(OPTIONS)
    for reach, kept in ends:
        places.end(reach, place(reach) if kept else None)
    other = StagePlaces(OPTIONS)
    other.load_state_dict(places.state_dict())
    for draws in ((0.2, 0.3, 0.9), (0.9, 0.1, 0.1), (0.7, 0.99, 0.5)):
        first = places.draw(frontier_share=0.5, draws=draws)
        second = other.draw(frontier_share=0.5, draws=draws)
        assert (first is None) == (second is None)
        if first is not None and second is not None:
            assert first.reach == second.reach
            assert np.array_equal(first.row, second.row)
    assert places.farthest == other.farthest


def test_the_share_leaves_room_for_fresh_starts() -> None:
    with pytest.raises(ConfigError, match="fresh_floor"):
        StartOptions(share=0.8, fresh_floor=0.3)
