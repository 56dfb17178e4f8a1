"""Our runtimes beside other libraries' vectors."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import pytest
from benchmarks.vectors import bench_vectors

from longhaul.app.bench.training import EnvBenchRequest
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.core.errors import ConfigError
from tests.app.small import small_config

QUICK = EnvBenchRequest(num_envs=1, runtime="serial", seconds=0.01, repeats=1)


def test_peers_are_measured_beside_us_on_our_free_environment() -> None:
    pytest.importorskip("stable_baselines3")
    found = bench_vectors(small_config("gym:longhaul/FreePixels-v0"), QUICK)
    peers = ("gymnasium AsyncVectorEnv", "sb3 SubprocVecEnv")
    assert [one.name for one in found.speeds] == ["longhaul serial", *peers]
    assert list(found.ratios) == [f"longhaul serial / {peer}" for peer in peers]
    assert all(one.median > 0 for one in found.speeds)
    assert "uint8 (4, 84, 84)" in found.conditions


@pytest.mark.slow
@pytest.mark.measures
def test_our_workers_step_images_more_than_twice_as_fast(
    record_property: Callable[[str, object], None],
) -> None:
    """Sixteen environments, in as many workers as there are cores here and in sixteen there."""
    pytest.importorskip("stable_baselines3")
    request = EnvBenchRequest(runtime="processes", repeats=3)
    found = bench_vectors(resolve(ConfigSources("gym:longhaul/FreePixels-v0")), request)
    assert len(found.ratios) == 2
    medians = {name: statistics.median(each) for name, each in found.ratios.items()}
    for name, median in medians.items():
        record_property(name, f"{median:.1f}")
    assert min(medians.values()) > 2


def test_only_gymnasium_environments_are_compared() -> None:
    with pytest.raises(ConfigError, match="only gym: tasks"):
        bench_vectors(small_config("probe:chase"), QUICK)
