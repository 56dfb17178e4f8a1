"""Schools behind other libraries' interfaces, held to those libraries' own checkers."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from longhaul.tasks.fish.adapters import FishEnv, FishVectorEnv
from longhaul.tasks.fish.options import FishOptions, NeighborOptions, PredatorOptions
from tests.tasks.fish.worlds import tank

SMALL = FishOptions(fish=4, time_limit=25, short_limit=9, short_share=0.5)
SOCIAL = FishOptions(
    fish=3, time_limit=20, neighbors=NeighborOptions(inputs=True), predator=PredatorOptions(2)
)


@pytest.mark.parametrize("options", [SMALL, SOCIAL], ids=["small", "social"])
def test_gymnasiums_checker_accepts_a_school(options: FishOptions) -> None:
    check_env(FishEnv(options, render_mode="rgb_array"), skip_render_check=True)


def test_the_vector_of_schools_does_what_gymnasium_does_with_single_ones() -> None:
    ours = FishVectorEnv(3, SMALL)
    theirs = SyncVectorEnv(
        [partial(FishEnv, SMALL) for _ in range(3)], autoreset_mode=AutoresetMode.SAME_STEP
    )
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    np.testing.assert_array_equal(ours.reset(seed=5)[0], theirs.reset(seed=5)[0])
    ours.action_space.seed(1)
    ended = 0
    for _ in range(120):
        actions = ours.action_space.sample()
        mine: tuple[Any, ...] = ours.step(actions)
        yours: tuple[Any, ...] = theirs.step(actions)
        for one, two in zip(mine[:4], yours[:4], strict=True):
            np.testing.assert_array_equal(one, two)
        over = mine[2] | mine[3]
        np.testing.assert_array_equal(mine[4]["active"], yours[4]["active"])
        if over.any():
            ended += 1
            assert_same_finals(mine[4], yours[4], over)
    assert ended > 10
    ours.close()
    theirs.close()


def assert_same_finals(mine: dict[str, Any], yours: dict[str, Any], over: Any) -> None:
    np.testing.assert_array_equal(mine["_final_obs"], yours["_final_obs"])
    for env in np.flatnonzero(over):
        np.testing.assert_array_equal(mine["final_obs"][env], yours["final_obs"][env])
        rates = mine["final_info"]["survival_rate"], yours["final_info"]["survival_rate"]
        assert rates[0][env] == rates[1][env]


def test_gymnasiums_vector_wrappers_work_on_the_vector_of_schools() -> None:
    env = RecordEpisodeStatistics(FishVectorEnv(2, SMALL))
    observation, _ = env.reset(seed=3)
    assert env.observation_space.contains(observation)
    lengths = []
    for _ in range(60):
        _, _, _, _, info = env.step(env.action_space.sample())
        if "episode" in info:
            lengths += info["episode"]["l"][info["_episode"]].tolist()
    assert lengths
    assert set(lengths) <= set(range(26))


def test_a_seeded_reset_begins_that_seeds_episode() -> None:
    env = FishVectorEnv(2, SMALL, render_mode="rgb_array")
    observation, _ = env.reset(seed=[42, None])
    np.testing.assert_array_equal(observation[0], tank(SMALL, seeds=(42,)).obs)
    frames = env.render()
    assert frames is not None
    assert frames[0].shape == (800, 800, 3)
    assert gym.spaces.Box(0, 255, (800, 800, 3), np.uint8).contains(frames[1])


def test_pettingzoos_checkers_accept_a_school(capsys: pytest.CaptureFixture[str]) -> None:
    test = pytest.importorskip("pettingzoo.test")
    from longhaul.tasks.fish.parallel_env import FishParallelEnv

    test.parallel_api_test(FishParallelEnv(SMALL), num_cycles=200)
    test.parallel_api_test(FishParallelEnv(SOCIAL), num_cycles=200)
    test.parallel_seed_test(partial(FishParallelEnv, SMALL))
    assert "Passed" in capsys.readouterr().out


def test_agents_leave_when_they_die() -> None:
    pytest.importorskip("pettingzoo")
    from longhaul.tasks.fish.parallel_env import FishParallelEnv

    env = FishParallelEnv(FishOptions(fish=60, time_limit=40), render_mode="rgb_array")
    env.reset(seed=8)
    assert env.render() is not None
    gone = 0
    while env.agents:
        before = list(env.agents)
        _, reward, terminated, truncated, _ = env.step(dict.fromkeys(before, 4))
        assert reward.keys() == terminated.keys() == truncated.keys() == set(before)
        died = [agent for agent in before if terminated[agent]]
        assert all(reward[agent] == -1.0 for agent in died)
        assert not set(died) & set(env.agents)
        gone += len(died)
    assert gone > 0
    assert all(truncated[agent] for agent in before if agent not in died)
