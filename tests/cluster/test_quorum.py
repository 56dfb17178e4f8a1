"""How many fragments an update needs, and for how long the others are waited for."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.cluster.config import ClusterConfig, count_collectors
from longhaul.cluster.roster import FragmentTimes, Quorum
from longhaul.core.errors import ConfigError

shares = st.floats(0.01, 1.0)
counts = st.integers(0, 2000)
seconds = st.floats(0, 1e6)


@given(shares, counts)
def test_a_quorum_is_never_empty_nor_more_than_all(share: float, expected: int) -> None:
    needed = Quorum(share, 0.0).needed(expected)
    assert 1 <= needed <= max(1, expected)
    assert needed >= share * expected - 1e-6
    assert needed == 1 or needed - 1 < share * expected


@given(counts, seconds, seconds)
def test_if_all_are_needed_no_patience_lets_one_out(
    expected: int, waited: float, usual: float
) -> None:
    quorum = Quorum(1.0, 0.0)
    assert not quorum.is_enough(expected - 1, expected, waited=waited, usual=usual)


@given(shares, counts, st.floats(0, 10), seconds, seconds)
def test_whoever_is_all_there_waits_for_nobody(
    share: float, count: int, patience: float, waited: float, usual: float
) -> None:
    quorum = Quorum(share, patience)
    assert quorum.is_enough(count + 1, count + 1, waited=waited, usual=usual)


def test_a_straggler_is_waited_for_as_long_as_patience_lasts() -> None:
    quorum = Quorum(0.75, 0.5)
    assert not quorum.is_enough(2, 4, waited=100.0, usual=2.0), "two of four are no quorum"
    assert not quorum.is_enough(3, 4, waited=0.9, usual=2.0)
    assert quorum.left(waited=0.9, usual=2.0) == pytest.approx(0.1)
    assert quorum.is_enough(3, 4, waited=1.0, usual=2.0)


def test_the_deadline_follows_what_is_usual() -> None:
    times = FragmentTimes(least_deadline=30.0, first_deadline=120.0)
    assert (times.usual, times.deadline) == (0.0, 120.0)
    for _ in range(5):
        times.add(0.1)
    times.add(50.0)
    assert (times.usual, times.deadline) == (0.1, 30.0), "one slow fragment changes nothing"
    for _ in range(20):
        times.add(4.0)
    assert times.deadline == 80.0


@pytest.mark.parametrize(
    ("config", "free", "expected"),
    [
        (ClusterConfig(), 5.0, 5),
        (ClusterConfig(), 100.0, 12),
        (ClusterConfig(), 0.0, 1),
        (ClusterConfig(cpus_per_collector=2.0), 9.0, 4),
        (ClusterConfig(collectors=7), 1.0, 7),
        (ClusterConfig(envs_per_collector=3), 1.0, 4),
    ],
)
def test_collectors_are_as_many_as_asked_for_or_as_fit(
    config: ClusterConfig, free: float, expected: int
) -> None:
    assert count_collectors(config, 12, free_processors=free) == expected


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (ClusterConfig(envs_per_collector=5), "must divide num_envs = 12"),
        (ClusterConfig(collectors=13), "more than num_envs = 12"),
    ],
)
def test_collectors_that_do_not_fit_the_environments_are_refused(
    config: ClusterConfig, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        count_collectors(config, 12, free_processors=4.0)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"quorum": 0.0}, "cluster.quorum = 0.0 must be above 0"),
        ({"quorum": math.nextafter(1.0, 2.0)}, "at most 1"),
        ({"max_lag": -1}, "cluster.max_lag = -1 must be at least 0"),
        ({"connect_seconds": 0.0}, "cluster.connect_seconds = 0.0 must be above 0"),
        ({"collectors": 2, "envs_per_collector": 2}, "cannot be combined"),
    ],
)
def test_a_value_out_of_range_is_named(values: dict[str, float], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ClusterConfig(**values)  # type: ignore[arg-type] # each is what its field takes
