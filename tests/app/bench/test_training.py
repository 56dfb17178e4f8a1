from __future__ import annotations

import json
import signal
from dataclasses import replace

import pytest

from longhaul.app.bench.training import (
    Benchmark,
    BenchRequest,
    Measured,
    Stopwatch,
    bench_training,
    measure_run,
    only_training,
)
from longhaul.app.peers.sb3 import build_sb3
from longhaul.core.errors import ConfigError
from longhaul.core.progress import Progress
from tests.app.small import CARTPOLE, small_config


def test_our_own_speed_is_measured_without_a_peer() -> None:
    measured = bench_training(small_config(), BenchRequest(total_timesteps=128, repeats=2))
    assert measured.peer is None
    assert measured.ratios == ()
    assert len(measured.ours.steps_per_second) == 2
    assert measured.ours.median > 0
    assert sum(measured.ours.shares.values()) == pytest.approx(1.0)
    assert {"collect", "learn"} <= measured.ours.shares.keys()


def test_a_peer_is_measured_beside_us() -> None:
    pytest.importorskip("stable_baselines3")
    measured = bench_training(
        small_config(CARTPOLE, "learn.minibatch=32"),
        BenchRequest(peer="sb3", total_timesteps=128, repeats=1),
    )
    assert measured.peer is not None
    assert measured.peer.median > 0
    assert len(measured.ratios) == 1


def test_the_peer_has_our_network_batch_and_environment() -> None:
    pytest.importorskip("stable_baselines3")
    config = small_config(
        CARTPOLE, "learn.minibatch=32", "options.max_episode_steps=7", "policy.hidden=[5, 6]"
    )
    model = build_sb3(config)
    assert model.n_steps == 16
    assert model.n_envs == 2
    assert model.batch_size == 32
    assert model.n_epochs == 1
    layers = model.policy.mlp_extractor.policy_net
    assert [layer.out_features for layer in layers if hasattr(layer, "weight")] == [5, 6]
    assert model.env.envs[0].spec.max_episode_steps == 7


@pytest.mark.parametrize(
    ("task", "overrides"),
    [
        ("probe:chase", ()),
        (CARTPOLE, ("learn.algorithm=vtrace",)),
        (CARTPOLE, ("policy.core=gru",)),
    ],
)
def test_a_peer_that_cannot_do_the_same_is_refused(task: str, overrides: tuple[str, ...]) -> None:
    pytest.importorskip("stable_baselines3")
    with pytest.raises(ConfigError, match="--peer sb3 compares PPO without a memory"):
        build_sb3(small_config(task, *overrides))


def test_the_table_shows_both_speeds_and_their_ratio() -> None:
    both = Benchmark(
        CARTPOLE,
        "under these conditions",
        Measured("longhaul", (300.0, 200.0, 400.0), {"collect": 0.75, "learn": 0.25}),
        Measured("longhaul, rollouts alone", (600.0, 600.0, 600.0)),
        Measured("sb3", (100.0, 100.0, 100.0)),
    )
    assert both.ratios == (3.0, 2.0, 4.0)
    text = both.as_text()
    assert "under these conditions" in text
    assert "rollouts alone" in text
    assert "ratio 3.00 (each repeat: 3.00 2.00 4.00)" in text
    assert "longhaul's time: collect 75 %, learn 25 %" in text
    assert json.loads(both.as_json())["ratios"] == [3.0, 2.0, 4.0]


def test_steps_are_enough_when_none_are_asked_for() -> None:
    config = small_config()
    assert only_training(config, 128).total_timesteps == 128
    enough = only_training(replace(config, num_envs=1000), 0)
    assert enough.total_timesteps > 10 * 1000 * config.collect.steps


def test_a_signal_ends_the_whole_measurement() -> None:
    class Terminated(Stopwatch):
        """Is there when the run's first iteration begins, and asks for its end."""

        def __call__(self, progress: Progress) -> str | None:
            if progress.iteration == 0:
                signal.raise_signal(signal.SIGTERM)
            return super().__call__(progress)

    with pytest.raises(SystemExit) as stopped:
        measure_run(small_config(), Terminated())
    assert stopped.value.code == 128 + signal.SIGTERM


def test_a_stopwatch_needs_an_iteration_after_the_first() -> None:
    watch = Stopwatch()
    watch(Progress())
    watch(Progress(1, 32))
    with pytest.raises(ConfigError, match="raise --total-timesteps"):
        watch.steps_per_second  # noqa: B018 - reading it is what fails
    watch(Progress(2, 64))
    assert watch.steps_per_second > 0
