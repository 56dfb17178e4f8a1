"""The game behind Gymnasium's two APIs."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from longhaul.envs.gymnasium.ids import register
from longhaul.tasks.mario.game.options import GameOptions
from longhaul.tasks.mario.gymnasium_env import MarioEnv, MarioVectorEnv

pytestmark = [pytest.mark.emulator, pytest.mark.usefixtures("cartridge")]

SHORT = GameOptions(observation="pixels", time_limit=12, noop_frames=8)


@pytest.mark.parametrize("observation", ["pixels", "tiles"])
def test_gymnasiums_own_checker_finds_nothing(observation: str) -> None:
    register()
    env = gym.make("longhaul/Mario-1-1-v0", observation=observation, render_mode="rgb_array")
    check_env(env.unwrapped)
    env.close()  # type: ignore[no-untyped-call]  # Gymnasium's wrappers are untyped


def test_all_stages_have_an_id() -> None:
    register()
    ids = [f"longhaul/Mario-{world}-{stage}-v0" for world in range(1, 9) for stage in range(1, 5)]
    assert all(one in gym.registry for one in ids)
    env = gym.make("longhaul/Mario-4-2-v0")
    _, info = env.reset(seed=1)
    assert (info["world"], info["stage"]) == (4, 2)
    env.close()  # type: ignore[no-untyped-call]  # Gymnasium's wrappers are untyped


def test_the_ids_make_vectors_as_well() -> None:
    register()
    vector = gym.make_vec(
        "longhaul/Mario-1-1-v0", num_envs=3, vectorization_mode="vector_entry_point"
    )
    assert isinstance(vector.unwrapped, MarioVectorEnv)
    observation, info = vector.reset(seed=5)
    assert observation in vector.observation_space
    assert info["x_pos"].tolist() == [40, 40, 40]
    vector.close()


def test_a_vector_is_as_many_single_environments() -> None:
    vector = MarioVectorEnv(3, options=SHORT)
    singles = [MarioEnv(options=SHORT) for _ in range(3)]
    together, _ = vector.reset(seed=11)
    alone = [env.reset(seed=11 + number)[0] for number, env in enumerate(singles)]
    np.testing.assert_array_equal(together, np.stack(alone))
    generator = np.random.default_rng(0)
    for step in range(12):
        actions = generator.integers(0, 7, 3)
        together, reward, terminated, truncated, info = vector.step(actions)
        results = [env.step(action) for env, action in zip(singles, actions, strict=True)]
        np.testing.assert_array_equal(reward, [result[1] for result in results])
        np.testing.assert_array_equal(terminated, [result[2] for result in results])
        np.testing.assert_array_equal(truncated, [result[3] for result in results])
        shown = info["final_obs"] if step == 11 else together
        np.testing.assert_array_equal(np.stack(list(shown)), [result[0] for result in results])
    assert truncated.all()
    assert info["final_info"]["reason"].tolist() == ["timeout"] * 3


def test_pictures_for_films_are_whole_screens_in_color() -> None:
    env = MarioEnv(render_mode="rgb_array", options=SHORT)
    env.reset(seed=0)
    picture = env.render()
    assert picture.shape == (240, 256, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 5
    assert env.metadata["render_fps"] == 15


def test_ppo_of_another_library_trains_on_it() -> None:
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    env = MarioEnv(options=SHORT)
    model = stable_baselines3.PPO(
        "CnnPolicy", env, n_steps=16, batch_size=16, n_epochs=1, seed=1, device="cpu"
    )
    model.learn(32)
    assert model.num_timesteps == 32
