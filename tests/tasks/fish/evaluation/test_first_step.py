"""Row 18 of the fish checklist: known buckets, top share and sector share; ties are stable."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.tasks.fish.evaluation.first_step import NORTH_TO_NORTH_WEST, Sector, cluster
from longhaul.tasks.fish.lab.timeline import moving_average
from tests.tasks.fish.deaths import death

DEATHS = [
    *(death(95, 1.7, seed=1) for _ in range(4)),
    death(100, 1.9, seed=2),
    *(death(200, 0.5, seed=3) for _ in range(3)),
    death(125, 2.1, seed=4),
    death(125, 0.9, seed=4),
]


def test_deaths_fall_into_known_buckets() -> None:
    found = cluster(DEATHS)
    assert (found.total, found.angle_bin_deg, found.speed_bin, found.episodes) == (10, 30, 0.4, 4)
    first, second = found.clusters[:2]
    assert (first.angle_deg_start, first.angle_deg_end) == (90, 120)
    assert (first.speed_bin_start, first.speed_bin_end) == (1.6, 2.0)
    assert (first.count, first.share, first.episodes) == (5, 0.5, 2)
    assert (second.angle_deg_start, second.count, second.episodes) == (180, 3, 1)


def test_the_top_share_is_that_of_the_largest_bucket() -> None:
    found = cluster(DEATHS)
    assert found.top_share == 0.5
    assert max(one.episode_share for one in found.clusters) == 0.5


def test_the_sector_counts_buckets_that_reach_its_speed() -> None:
    # 90 to 120 at 1.6 to 2.0, and 120 to 150 at 2.0 to 2.4, but not 120 to 150 at 0.8 to 1.2.
    assert NORTH_TO_NORTH_WEST.share(cluster(DEATHS)) == pytest.approx(0.6)
    assert Sector(180, 210, 0.0).share(cluster(DEATHS)) == pytest.approx(0.3)
    assert Sector(180, 210, 0.9).share(cluster(DEATHS)) == 0.0


def test_without_deaths_there_are_no_shares() -> None:
    found = cluster([])
    assert (found.total, found.clusters) == (0, ())
    assert found.top_share is None
    assert NORTH_TO_NORTH_WEST.share(found) is None


def test_equal_buckets_stand_in_the_order_of_their_bins() -> None:
    found = cluster([death(200, 0.5), death(95, 1.7), death(95, 0.1), death(10, 3.0)])
    assert [(c.angle_deg_start, c.speed_bin_start) for c in found.clusters] == [
        (0, 2.8),
        (90, 0.0),
        (90, 1.6),
        (180, 0.4),
    ]


@pytest.mark.parametrize(("pace", "begin"), [(1.2, 1.2), (1.1999, 0.8), (1.6, 1.6), (0.0, 0.0)])
def test_a_speed_on_the_border_is_in_the_upper_bucket(pace: float, begin: float) -> None:
    assert cluster([death(0, pace)]).clusters[0].speed_bin_start == begin


def test_a_row_is_plain_values() -> None:
    row = cluster(DEATHS).as_row()
    assert list(row) == ["total", "angle_bin_deg", "speed_bin", "clusters", "episodes"]
    assert {"angle_deg_start", "angle_deg_end", "speed_bin_start", "speed_bin_end", "count",
            "share", "episodes"} <= set(row["clusters"][0])  # fmt: skip


@given(
    velocities=st.lists(st.tuples(st.floats(0, 359.9), st.floats(0, 3.9)), min_size=1, max_size=40),
    shuffle=st.randoms(use_true_random=False),
)
def test_the_order_of_deaths_does_not_matter(
    velocities: list[tuple[float, float]], shuffle: random.Random
) -> None:
    deaths = [death(*velocity, seed=k % 5) for k, velocity in enumerate(velocities)]
    found = cluster(deaths)
    shuffle.shuffle(deaths)
    assert cluster(deaths) == found
    assert sum(c.count for c in found.clusters) == found.total
    assert sum(c.share for c in found.clusters) == pytest.approx(1)


def test_the_moving_average_begins_with_the_first_count_and_bridges_gaps() -> None:
    """W15: counts as a moving average."""
    assert moving_average([None, 4, None, 8, 0]) == [None, 4, 4, 6, 3]
