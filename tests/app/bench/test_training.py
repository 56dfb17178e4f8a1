from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from longhaul.app.bench.training import (
    OURS,
    ROLLOUTS,
    BenchRequest,
    IterationTimer,
    bench_training,
    measure_run,
    only_training,
)
from longhaul.core.control import Progress
from longhaul.core.errors import ConfigError
from tests.app.small import small_config


def test_our_own_speed_is_measured_without_a_peer() -> None:
    found = bench_training(small_config(), BenchRequest(total_timesteps=128, repeats=2))
    assert [one.name for one in found.speeds] == [OURS, ROLLOUTS]
    assert not found.ratios
    assert all(len(one.per_second) == 2 and one.median > 0 for one in found.speeds)
    shares = found.values["shares"]
    assert sum(shares.values()) == pytest.approx(1.0)
    assert {"collect", "learn"} <= shares.keys()


def test_a_peer_is_compared_repeat_by_repeat() -> None:
    request = BenchRequest(total_timesteps=128, repeats=2)
    found = bench_training(small_config(), request, {"slow": lambda config: 1.0})
    assert found.ratios == {f"{OURS} / slow": found[OURS].per_second}


def test_a_measurement_is_taken_at_least_once() -> None:
    with pytest.raises(ConfigError, match="--repeats must be at least 1"):
        BenchRequest(repeats=0)


def test_steps_are_enough_when_none_are_asked_for() -> None:
    config = small_config()
    assert only_training(config, 128).total_timesteps == 128
    enough = only_training(replace(config, num_envs=1000), 0)
    assert enough.total_timesteps > 10 * 1000 * config.collect.num_steps


def test_a_signal_ends_the_whole_measurement() -> None:
    class Terminated(IterationTimer):
        """Is there when the run's first iteration begins, and asks for its end."""

        def __call__(self, progress: Progress) -> str | None:
            if progress.iteration == 0:
                signal.raise_signal(signal.SIGTERM)
            return super().__call__(progress)

    with pytest.raises(SystemExit) as stopped:
        measure_run(small_config(), Terminated())
    assert stopped.value.code == 128 + signal.SIGTERM


def test_a_stopwatch_needs_an_iteration_after_the_first() -> None:
    watch = IterationTimer()
    watch(Progress())
    watch(Progress(1, 32))
    with pytest.raises(ConfigError, match="raise --total-timesteps"):
        watch.steps_per_second  # noqa: B018 - reading it is what fails
    watch(Progress(2, 64))
    assert watch.steps_per_second > 0
