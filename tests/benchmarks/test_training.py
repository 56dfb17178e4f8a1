"""Stable-Baselines3 under the conditions of our own training."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from benchmarks.peers.sb3 import build_sb3

from longhaul.core.errors import ConfigError
from tests.app.small import CARTPOLE, small_config

pytest.importorskip("stable_baselines3")


def test_a_peer_is_measured_beside_us() -> None:
    words = [CARTPOLE, "--total-timesteps", "128", "--repeats", "1", "--json"]
    small = ["num_envs=2", "collect.num_steps=16", "learn.minibatch_size=32"]
    command = [sys.executable, "-m", "benchmarks.peers", *words]
    for change in small:
        command += ["--set", change]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    # CleanRL is beside it where its interpreter was made.
    assert "longhaul / sb3" in told["ratios"]
    assert all(min(ratios) > 0 for ratios in told["ratios"].values())


def test_the_peer_has_our_network_batch_and_environment() -> None:
    config = small_config(
        CARTPOLE, "learn.minibatch_size=32", "options.max_episode_steps=7", "policy.hidden=[5, 6]"
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
    with pytest.raises(ConfigError, match="sb3 is compared with PPO without a memory"):
        build_sb3(small_config(task, *overrides))
