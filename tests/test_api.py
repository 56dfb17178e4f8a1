"""The public Python interface: train, look at the run, load the agent, act."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import longhaul
from longhaul.core.errors import ConfigError
from longhaul.core.spaces import Discrete

SMALL: dict[str, Any] = {
    "total_timesteps": 2048,
    "num_envs": 4,
    "collect": {"num_steps": 64},
    "evaluate": {"final_episodes": 2},
    "schedule": [],
}
QUIET = longhaul.SessionOptions(quiet=True, report=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> longhaul.Run:
    root = tmp_path_factory.mktemp("runs")
    run = longhaul.train("gym:CartPole-v1", seed=1, runs_root=root, session=QUIET, **SMALL)
    assert run is not None
    return run


def test_importing_the_package_loads_no_heavy_library() -> None:
    code = "import longhaul, sys; print(sorted({'torch', 'numpy', 'gymnasium'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_imported() -> None:
    for name in longhaul.__all__:
        assert getattr(longhaul, name).__name__ == name
    assert set(dir(longhaul)) == set(longhaul.__all__)
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = longhaul.trian


def test_training_returns_the_run_and_the_same_call_continues_nothing_finished(
    run: longhaul.Run,
) -> None:
    assert run.outcome is not None
    assert run.outcome.exit_code == 0
    assert run.config.seed == 1


def test_curves_are_arrays_of_one_length(run: longhaul.Run) -> None:
    curves = run.metrics("rollout/ep_rew_mean")
    assert list(curves) == ["iteration", "env_steps", "rollout/ep_rew_mean"]
    assert curves["env_steps"][-1] == 2048
    assert {len(curve) for curve in run.metrics().values()} == {8}


def test_an_unknown_metric_is_refused_with_a_suggestion(run: longhaul.Run) -> None:
    with pytest.raises(ConfigError, match="did you mean 'rollout/ep_rew_mean'"):
        run.metrics("rollout/ep_rew_maen")


def test_a_run_evaluates_itself_the_same_way_every_time(run: longhaul.Run) -> None:
    first, second = run.evaluate(episodes=3), run.evaluate(episodes=3)
    assert first.as_json() == second.as_json()


def test_a_loaded_agent_plays_an_episode(run: longhaul.Run) -> None:
    agent = longhaul.load(run.path)
    env = gym.make("CartPole-v1")
    observation, _ = env.reset(seed=3)
    assert isinstance(agent.task.envs.spec.action, Discrete)
    for _ in range(5):
        action = agent.act(observation)
        assert action in (0, 1)
        observation, *_ = env.step(action)
    assert agent.act(np.zeros((3, 4), np.float32)).shape == (3,)


def test_a_mistake_raises_one_error_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(longhaul.LonghaulError, match="unknown config key 'lern'"):
        longhaul.train("gym:CartPole-v1", lern={"gamma": 0.9}, runs_root=tmp_path)
    assert not list(tmp_path.iterdir())
