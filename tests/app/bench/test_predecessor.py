"""Measuring the fish: environments in their own sizes, training beside the predecessor."""

from __future__ import annotations

import json

import pytest

from longhaul.app.bench.predecessor import Beside, Pace, bench_predecessor, has_predecessor
from longhaul.app.bench.training import BenchRequest
from longhaul.app.bench.variants import bench_variants, has_variants
from longhaul.app.configure import ConfigSources, resolve
from longhaul.core.errors import ConfigError


def test_environments_are_measured_in_the_sizes_the_task_names() -> None:
    assert has_variants("fish")
    assert not has_variants("probe:recall")
    found = bench_variants("fish", seconds=0.01, repeats=1)
    sizes = [(speed.envs, speed.rows) for speed in found.speeds]
    assert sizes[:2] == [(128, 25), (13, 250)]
    assert all(value > 0 for speed in found.speeds for value in speed.per_cpu_second)
    assert "base inputs, 25 fish" in found.as_text()
    assert set(json.loads(found.as_json())["variants"]) == {speed.name for speed in found.speeds}
    with pytest.raises(ConfigError, match="--seconds must be more than 0"):
        bench_variants("fish", seconds=0.0, repeats=1)


def test_ratios_are_ours_over_theirs_repeat_by_repeat() -> None:
    ours = Pace("longhaul", "fast", (100.0, 200.0), (50.0, 60.0), (100.0, 200.0))
    theirs = Pace("predecessor", "slow", (10.0, 10.0), (5.0, 6.0), (1.0, 2.0))
    beside = Beside("fish", ours, theirs)
    assert beside.ratios["steps/s"] == (10.0, 20.0)
    assert beside.ratios["steps/CPU-s"] == (10.0, 10.0)
    assert beside.ratios["learned/s"] == (100.0, 100.0)
    assert "longhaul: fast" in beside.as_text()
    assert json.loads(beside.as_json())["ratios"]["steps/s"] == [10.0, 20.0]


def test_only_tasks_that_had_one_are_measured_beside_a_predecessor() -> None:
    assert has_predecessor("fish")
    assert not has_predecessor("gym:CartPole-v1")
    config = resolve(ConfigSources(task="gym:CartPole-v1"))
    with pytest.raises(ConfigError, match="has no predecessor"):
        bench_predecessor(config, BenchRequest())


@pytest.mark.slow
def test_training_leaves_the_predecessor_far_behind() -> None:
    request = BenchRequest(peer="sb3", total_timesteps=800_000, repeats=1)
    ratios = bench_predecessor(resolve(ConfigSources(task="fish")), request).ratios
    assert min(ratios["learned/s"]) > 100
    assert min(ratios["steps/CPU-s"]) > 10


@pytest.mark.slow
def test_row_4_a_million_fish_step_in_a_cpu_second_and_large_schools_cost_no_more() -> None:
    found = {
        s.name: max(s.per_cpu_second) for s in bench_variants("fish", seconds=1, repeats=3).speeds
    }
    assert found["base inputs, 25 fish"] > 1_000_000
    for inputs in ("base inputs", "own frame"):
        assert found[f"{inputs}, 250 fish"] > 0.8 * found[f"{inputs}, 25 fish"]
