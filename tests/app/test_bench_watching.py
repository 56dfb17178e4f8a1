"""What watching a run costs, measured beside the same run without."""

from __future__ import annotations

import json

import pytest

from longhaul.app.bench import BenchRequest
from longhaul.app.bench_watching import CPU, WALL, WatchingCost, bench_watching, unwatched
from longhaul.core.errors import ConfigError
from tests.app.small import small_config


def test_both_kinds_are_measured_in_turn() -> None:
    found = bench_watching(small_config(), BenchRequest(total_timesteps=128, repeats=2))
    assert len(found.watched) == len(found.bare) == 2
    assert "watching costs" in found.as_text()
    assert set(json.loads(found.as_json())["cost"]) == {"wall", "cpu"}


def test_the_cost_is_that_of_the_pair_in_the_middle() -> None:
    watched = ((90.0, 190.0), (990.0, 196.0), (100.0, 300.0))
    bare = ((100.0, 200.0), (1000.0, 200.0), (100.0, 200.0))
    cost = WatchingCost("task", "", watched, bare)
    assert cost.cost(WALL) == pytest.approx(0.01)
    assert cost.cost(CPU) == pytest.approx(0.02)


def test_an_unwatched_run_is_the_same_run() -> None:
    config = small_config()
    bare = unwatched(config)
    assert not bare.hints.enabled
    assert not bare.watch.enabled
    assert bare.learn == config.learn


def test_nothing_is_measured_without_repeats() -> None:
    with pytest.raises(ConfigError, match="--repeats"):
        bench_watching(small_config(), BenchRequest(repeats=0))
