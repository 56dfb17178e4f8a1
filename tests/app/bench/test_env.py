from __future__ import annotations

import pytest

from longhaul.app.bench.training import BATCH, EnvBenchRequest, bench_env, steps_per_second
from longhaul.core.errors import ConfigError
from tests.app.small import CARTPOLE, small_config


def test_our_runtimes_are_measured_without_a_peer() -> None:
    found = bench_env(small_config(), EnvBenchRequest(num_envs=2, seconds=0.01, repeats=2))
    assert [one.name for one in found.speeds] == ["longhaul serial", "longhaul processes"]
    assert all(len(one.per_second) == 2 and one.median > 0 for one in found.speeds)
    assert not found.ratios


def test_a_batched_task_is_measured_in_its_own_runtimes() -> None:
    request = EnvBenchRequest(num_envs=2, seconds=0.01, repeats=1)
    found = bench_env(small_config("probe:chase"), request)
    assert [one.name for one in found.speeds] == ["longhaul serial", "longhaul batched"]


def test_the_warm_up_does_not_count() -> None:
    ticks = iter(range(1000))
    taken: list[int] = []
    # Every look at the clock finds it one second later: 10 s hold ten batches of steps.
    speed = steps_per_second(taken.append, seconds=10.0, clock=lambda: float(next(ticks)))
    assert speed == pytest.approx(9 * BATCH / 10)
    assert len(taken) > 9 * BATCH


@pytest.mark.parametrize(
    ("task", "request_", "says"),
    [
        (CARTPOLE, {"runtime": "batched"}, "--runtime 'batched' does not run CartPole-v1"),
        (CARTPOLE, {"num_envs": 0}, "--num-envs must be at least 1"),
        (CARTPOLE, {"repeats": 0}, "--repeats must be at least 1"),
        (CARTPOLE, {"seconds": 0.0}, "--seconds must be more than 0"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    task: str, request_: dict[str, object], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        bench_env(small_config(task), EnvBenchRequest(**request_))  # type: ignore[arg-type]
