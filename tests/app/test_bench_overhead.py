"""What watching costs, as a command measures it."""

from __future__ import annotations

import pytest

from longhaul.app.bench_overhead import (
    DEAD,
    OFF,
    ON,
    TENSORBOARD,
    Overhead,
    bench_overhead,
    unwatched,
)
from longhaul.core.errors import ConfigError
from tests.app.small import small_config


def test_costs_are_medians_of_paired_ratios() -> None:
    rates: dict[str, tuple[tuple[float, float], ...]] = {
        OFF: ((100.0, 200.0), (50.0, 100.0), (100.0, 200.0)),
        ON: ((99.0, 196.0), (49.0, 98.0), (120.0, 196.0)),
    }
    found = Overhead("probe:chase", rates)
    assert found.cost(ON, OFF, by_cpu=False) == pytest.approx(0.01)
    assert found.cost(ON, OFF, by_cpu=True) == pytest.approx(0.02)
    assert "+2.00 %" in found.as_text()


def test_every_way_is_measured_as_often() -> None:
    pytest.importorskip("tensorboardX")
    found = bench_overhead(small_config(), total_timesteps=128, repeats=1)
    assert list(found.rates) == [OFF, ON, TENSORBOARD, DEAD]
    assert all(len(rates) == 1 for rates in found.rates.values())
    assert DEAD in found.as_json()


def test_an_unwatched_run_is_the_same_run() -> None:
    config = small_config()
    bare = unwatched(config)
    assert not bare.hints.enabled
    assert not bare.watch.enabled
    assert bare.learn == config.learn


def test_nothing_is_measured_without_repeats() -> None:
    with pytest.raises(ConfigError, match="--repeats"):
        bench_overhead(small_config(), total_timesteps=128, repeats=0)
