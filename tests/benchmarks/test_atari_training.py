"""Measuring training on Atari beside other trainers."""

from __future__ import annotations

from typing import Any

from benchmarks.atari_training import measured_config
from benchmarks.beside import conditions_for
from benchmarks.peers import cleanrl, sample_factory_atari

from longhaul.app.build.sources import ConfigSources, resolve


def asked() -> dict[str, Any]:
    config = measured_config(resolve(ConfigSources("atari:Pong", "bench")), 0)
    own = {"threads": 2, "workers": 2, "mode": "processes", "suffix": "-v5"}
    return conditions_for(config) | own


def given(words: list[str]) -> dict[str, str]:
    return dict(word.removeprefix("--").split("=", 1) for word in words)


def test_eleven_rollouts_are_measured_of_which_the_first_does_not_count() -> None:
    assert asked()["iterations"] == 11


def test_cleanrl_gets_our_batch_and_epochs() -> None:
    words = given(cleanrl.arguments(asked()))
    assert words["env-id"] == "Pong-v5"
    assert (words["num-envs"], words["num-steps"]) == ("8", "128")
    # 8 x 128 steps in minibatches of 256.
    assert (words["num-minibatches"], words["update-epochs"]) == ("4", "4")
    assert (words["learning-rate"], words["clip-coef"]) == ("0.00025", "0.1")
    assert words["total-timesteps"] == str(11 * 8 * 128)


def test_sample_factory_gets_our_batch_and_epochs() -> None:
    words = given(sample_factory_atari.arguments(asked(), "folder"))
    assert (words["env"], words["rollout"], words["batch_size"]) == ("atari_pong", "128", "256")
    assert (words["num_workers"], words["num_envs_per_worker"]) == ("2", "4")
    assert (words["num_batches_per_epoch"], words["num_epochs"]) == ("4", "4")
    assert (words["normalize_input"], words["async_rl"]) == ("False", "True")


def test_serial_sample_factory_has_one_worker_with_all_games() -> None:
    words = given(sample_factory_atari.arguments(asked() | {"mode": "serial"}, "folder"))
    assert (words["num_workers"], words["num_envs_per_worker"]) == ("1", "8")
    assert (words["serial_mode"], words["async_rl"]) == ("True", "False")
