"""The model of a cluster's speed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.cluster_model import Costs, Network, most_useful, project
from hypothesis import given
from hypothesis import strategies as st

COSTS = Costs(
    transitions=1000,
    fragment_seconds=1.0,
    call_seconds=0.0,
    send_seconds=0.0,
    fragment_bytes=1_000_000,
    state_bytes=0,
    fetch_seconds=0.001,
    weights_bytes=4_000_000,
    put_seconds=0.0,
    learn_seconds=0.009,
)
FAST = Network(gigabits_per_second=1000.0, collectors_per_node=32)


def test_few_collectors_are_the_bound_themselves() -> None:
    found = project(COSTS, FAST, 10)
    assert (found.bound, found.steps_per_second) == ("collectors", 10_000.0)


def test_many_collectors_wait_for_the_learner() -> None:
    assert most_useful(COSTS, FAST) == 101
    found = project(COSTS, FAST, 1000)
    assert found.bound == "learner"
    assert found.steps_per_second == pytest.approx(100_000.0)


def test_a_faster_learner_feeds_more_collectors() -> None:
    assert most_useful(COSTS.with_learner(9.0), FAST) == 501


def test_a_slow_network_is_the_bound() -> None:
    slow = Network(gigabits_per_second=0.1, collectors_per_node=32)
    found = project(replace(COSTS, learn_seconds=0.0), slow, 100)
    assert found.bound == "fragments' network"
    assert found.steps_per_second == pytest.approx(1000 / (1_000_000 / 12.5e6))


def test_the_state_crosses_with_every_fragment() -> None:
    slow = Network(gigabits_per_second=0.1, collectors_per_node=32)
    light = replace(COSTS, learn_seconds=0.0)
    heavy = replace(light, state_bytes=light.fragment_bytes)
    ratio = project(light, slow, 100).steps_per_second / project(heavy, slow, 100).steps_per_second
    assert ratio == pytest.approx(2.0)


def test_laying_a_fragment_out_is_a_collectors_own_time() -> None:
    found = project(replace(COSTS, send_seconds=1.0), FAST, 10)
    assert (found.bound, found.steps_per_second) == ("collectors", 5_000.0)


def test_weights_cross_once_per_node() -> None:
    heavy = replace(COSTS, weights_bytes=10**9, learn_seconds=0.0)
    assert project(heavy, FAST, 64).seconds["weights' network"] == pytest.approx(2 * 1e9 / 125e9)


@given(st.integers(1, 5000))
def test_more_collectors_are_never_slower(collectors: int) -> None:
    fewer, more = (project(COSTS, FAST, count) for count in (collectors, collectors + 1))
    assert more.steps_per_second >= fewer.steps_per_second * (1 - 1e-9)
