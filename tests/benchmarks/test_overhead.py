"""What watching costs."""

from __future__ import annotations

import pytest
from benchmarks.overhead import (
    AGAIN,
    DEAD,
    OFF,
    ON,
    TENSORBOARD,
    as_table,
    bench_overhead,
    cost,
    unwatched,
)
from benchmarks.processes import Turn

from longhaul.core.errors import ConfigError
from tests.app.small import small_config


def test_costs_are_shares_of_what_the_way_without_could_have_done() -> None:
    turns = {
        OFF: (Turn(1.0, 2.0), Turn(1.0, 2.0)),
        ON: (Turn(1.25, 2.0), Turn(1.25, 2.0)),
        DEAD: (Turn(1.25, 2.5), Turn(1.25, 2.5)),
    }
    assert cost(turns, ON, by_cpu=False).share == pytest.approx(0.2)
    assert cost(turns, ON, by_cpu=True).share == pytest.approx(0.0)
    dead = cost(turns, DEAD, by_cpu=True)
    assert (dead.low, dead.share, dead.high) == pytest.approx((0.2, 0.2, 0.2))
    found = as_table("probe:chase", 100, turns)
    assert found[ON].median == pytest.approx(80.0)
    assert "+20.00 % (+20.00 to +20.00)" in found.as_text()


@pytest.mark.thorough
def test_every_way_has_as_many_turns() -> None:
    pytest.importorskip("tensorboardX")
    found = bench_overhead(small_config(), total_timesteps=192)
    assert [one.name for one in found.speeds] == [OFF, ON, AGAIN, TENSORBOARD, DEAD]
    # Six iterations, of which the first and the last do not count.
    assert found.conditions.startswith("4 iterations of each")
    assert set(found.values["costs"]) == {ON, AGAIN, TENSORBOARD, DEAD}


@pytest.mark.thorough
def test_trackers_may_be_left_out() -> None:
    found = bench_overhead(small_config(), total_timesteps=160, with_trackers=False)
    assert [one.name for one in found.speeds] == [OFF, ON, AGAIN]
    assert all(one.median > 0 for one in found.speeds)


def test_too_few_steps_are_told() -> None:
    with pytest.raises(ConfigError, match="too few steps"):
        bench_overhead(small_config(), total_timesteps=64, with_trackers=False)


def test_an_unwatched_run_is_the_same_run() -> None:
    config = small_config()
    bare = unwatched(config)
    assert not bare.hints.enabled
    assert not bare.watch.enabled
    assert bare.learn == config.learn
