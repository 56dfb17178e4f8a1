"""Measuring the fish: environments in their own sizes, training beside the predecessor."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import pytest
from benchmarks.predecessor import bench_predecessor
from benchmarks.variants import bench_variants

from longhaul.app.bench.training import BenchRequest
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.core.errors import ConfigError


def test_environments_are_measured_in_the_sizes_the_task_names() -> None:
    found = bench_variants("fish", seconds=0.01, repeats=1)
    assert list(found.values["envs_and_rows"].values())[:2] == [(128, 25), (13, 250)]
    assert all(one.per_cpu_second[0] > 0 for one in found.speeds)
    assert "base inputs, 25 fish" in found.as_text()
    with pytest.raises(ConfigError, match="--seconds must be more than 0"):
        bench_variants("fish", seconds=0.0, repeats=1)
    with pytest.raises(ConfigError, match="no variants of task"):
        bench_variants("probe:recall", seconds=0.01, repeats=1)


def test_only_tasks_that_had_one_are_measured_beside_a_predecessor() -> None:
    config = resolve(ConfigSources(task="gym:CartPole-v1"))
    with pytest.raises(ConfigError, match="has no predecessor"):
        bench_predecessor(config, BenchRequest())


@pytest.mark.slow
@pytest.mark.measures
def test_training_leaves_the_predecessor_far_behind(
    record_property: Callable[[str, object], None],
) -> None:
    """Twenty times the steps of a CPU-second, each side as it was meant to be used."""
    request = BenchRequest(total_timesteps=800_000, repeats=3)
    ratios = bench_predecessor(resolve(ConfigSources(task="fish")), request).ratios
    medians = {name: statistics.median(ratios[name]) for name in ("learned/s", "steps/CPU-s")}
    for name, median in medians.items():
        record_property(f"{name} over the predecessor's", f"{median:.3g}")
    assert medians["steps/CPU-s"] > 20


@pytest.mark.slow
@pytest.mark.measures
def test_row_4_a_million_fish_step_in_a_cpu_second_and_large_schools_cost_no_more() -> None:
    found = {
        s.name: max(s.per_cpu_second) for s in bench_variants("fish", seconds=1, repeats=3).speeds
    }
    assert found["base inputs, 25 fish"] > 1_000_000
    for inputs in ("base inputs", "own frame"):
        assert found[f"{inputs}, 250 fish"] > 0.8 * found[f"{inputs}, 25 fish"]
