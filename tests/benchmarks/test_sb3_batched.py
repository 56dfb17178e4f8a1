"""Our environments as Stable-Baselines3 steps them."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from longhaul.app.build.components import build_env, build_task
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import DerivedSeeds, Seeds
from tests.app.small import CARTPOLE, SMALL, small_config

pytest.importorskip("stable_baselines3")

from benchmarks.peers.sb3_batched import (
    BatchedVecEnv,
    build_sb3_batched,
    lean_trunk,
    measure_sb3_batched,
)
from stable_baselines3.common.vec_env import DummyVecEnv, VecCheckNan, VecMonitor

LIMIT = "options.max_episode_steps=12"
PIXELS = (
    *SMALL,
    "policy.image_features=8",
    "learn.minibatch_size=16",
    "options.picture.height=40",
    "options.picture.width=40",
    "options.held_buttons=false",
    "policy.joint=[]",
)


def pixels_config(*overrides: str) -> Any:
    return resolve(ConfigSources("mario:standin", "pixels", overrides=(*PIXELS, *overrides)))


class SeededByLonghaul(gym.Wrapper[Any, Any, Any, Any]):
    """Begins its episodes with the seeds that we deal to one of ours."""

    def __init__(self, env: gym.Env[Any, Any], number: int, seeds: DerivedSeeds) -> None:
        super().__init__(env)
        self._number, self._seeds, self._episode = number, seeds, 0

    def reset(self, **_: Any) -> Any:
        seed = self._seeds.seed(self._number, self._episode)
        self._episode += 1
        return self.env.reset(seed=seed)


def both_kinds() -> tuple[BatchedVecEnv, DummyVecEnv]:
    config = small_config(CARTPOLE, LIMIT, "num_envs=3")
    seeds = DerivedSeeds(Seeds(config.seed))
    ours = BatchedVecEnv(build_env(config, build_task(config), seeds, 3))

    def make(number: int) -> gym.Env[Any, Any]:
        return SeededByLonghaul(gym.make("CartPole-v1", max_episode_steps=12), number, seeds)

    return ours, DummyVecEnv([partial(make, number) for number in range(3)])


def test_every_step_is_that_of_their_own_vector() -> None:
    ours, theirs = both_kinds()
    np.testing.assert_array_equal(ours.reset(), theirs.reset())
    drawn = np.random.default_rng(1).integers(0, 2, (40, 3))
    cut = 0
    for actions in drawn:
        mine, yours = ours.step(actions), theirs.step(actions)
        for part in range(3):
            np.testing.assert_array_equal(mine[part], yours[part])
        for told, expected in zip(mine[3], yours[3], strict=True):
            assert ("terminal_observation" in told) == ("terminal_observation" in expected)
            if "terminal_observation" in told:
                assert told["TimeLimit.truncated"] == expected["TimeLimit.truncated"]
                np.testing.assert_array_equal(
                    told["terminal_observation"], expected["terminal_observation"]
                )
                cut += told["TimeLimit.truncated"]
    assert cut > 0
    ours.close()
    theirs.close()


def test_what_is_returned_stays_when_the_next_step_is_taken() -> None:
    ours, _ = both_kinds()
    first = ours.reset()
    kept = first.copy()
    ours.step(np.zeros(3, np.int64))
    np.testing.assert_array_equal(first, kept)
    ours.close()


def test_their_wrappers_find_nothing_wrong_with_it() -> None:
    ours, _ = both_kinds()
    wrapped = VecMonitor(VecCheckNan(ours, raise_exception=True))
    wrapped.reset()
    lengths = []
    for _ in range(40):
        told = wrapped.step(np.zeros(3, np.int64))[3]
        lengths += [info["episode"]["l"] for info in told if "episode" in info]
    assert lengths
    assert all(0 < length <= 12 for length in lengths)
    assert ours.env_is_wrapped(gym.Wrapper) == [False] * 3
    with pytest.raises(AttributeError, match="no attribute 'gravity'"):
        ours.get_attr("gravity")
    with pytest.raises(AttributeError, match="no method 'render'"):
        ours.env_method("render")
    ours.close()


def test_the_peer_has_our_games_batch_and_layers() -> None:
    config = pixels_config()
    model = build_sb3_batched(config, lent=False)
    trunk = lean_trunk(config)
    assert (model.n_envs, model.n_steps, model.batch_size, model.n_epochs) == (2, 16, 16, 1)
    shapes = [tuple(weight.shape) for weight in model.policy.features_extractor.parameters()]
    assert shapes == [tuple(weight.shape) for weight in trunk.parameters()]
    heads = [model.policy.action_net.weight.shape, model.policy.value_net.weight.shape]
    assert [tuple(shape) for shape in heads] == [(7, 8), (1, 8)]
    model.env.close()


@pytest.mark.parametrize("lent", [False, True])
def test_the_peer_trains_on_our_games(*, lent: bool) -> None:
    speeds = measure_sb3_batched(pixels_config(), threads=1, lent=lent)
    assert speeds["steps_per_second"] > 0
    assert speeds["steps_per_cpu_second"] > 0


def test_a_peer_is_not_measured_with_another_network() -> None:
    with pytest.raises(ConfigError, match="use the preset 'pixels'"):
        lean_trunk(resolve(ConfigSources("mario:standin", "fast")))
    with pytest.raises(ConfigError, match="use the preset 'pixels'"):
        lean_trunk(pixels_config("policy.core=gru"))


def test_bodies_that_share_an_environment_are_refused() -> None:
    config = small_config("fish")
    env = build_env(config, build_task(config), DerivedSeeds(Seeds(1)), 1)
    with pytest.raises(ConfigError, match="one body with one choice"):
        BatchedVecEnv(env)
    env.close()
