"""Training environments and networks that are given as classes and functions."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import longhaul
from longhaul.core import plugins
from longhaul.core.errors import ConfigError
from longhaul.core.plugins import name_of
from longhaul.nets.actor_critic import ActorCritic, build_policy
from longhaul.nets.config import PolicyConfig
from tests.test_api import SMALL


class Walk(gym.Env[Any, Any]):
    """A walk along a line that ends at either end."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - Gymnasium's own form
    observation_space: gym.Space[Any] = gym.spaces.Box(-9.0, 9.0, (1,), np.float32)
    action_space: gym.Space[Any] = gym.spaces.Discrete(2)

    def __init__(self, length: int = 5, render_mode: str | None = None) -> None:
        self.length, self.render_mode = length, render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.place = self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.place, self.steps = self.place + (1 if action else -1), self.steps + 1
        over, cut = abs(self.place) == self.length, self.steps == 40
        return np.array([self.place], np.float32), 1.0, over, cut, {}

    def render(self) -> Any:
        return np.full((16, 32, 3), 128, np.uint8)


def make_walk() -> Walk:
    return Walk(length=3)


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names given in a test end with it."""
    monkeypatch.setattr(plugins, "_GIVEN", {})


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., longhaul.Run]:
    return functools.partial(
        longhaul.train, runs_root=tmp_path, quiet=True, **{**SMALL, "total_timesteps": 512}
    )


@pytest.mark.parametrize("made", [Walk, make_walk])
def test_a_class_or_function_of_a_module_has_a_name_that_the_command_can_import(
    made: Any, train: Callable[..., longhaul.Run]
) -> None:
    run = train(made)
    assert run.config.task == f"gym:{__name__}:{made.__name__}"
    assert longhaul.Run(run.path).agent().act(np.zeros(1)) in (0, 1)
    assert run.film(gif=True)[0].exists()


def test_a_class_takes_arguments_and_a_limit_from_the_options(
    train: Callable[..., longhaul.Run],
) -> None:
    run = train(Walk, options={"kwargs": {"length": 30}, "max_episode_steps": 7})
    assert set(run.episodes(table="arrays")["length"]) == {7}


def test_a_lambda_is_named_by_what_it_does(train: Callable[..., longhaul.Run]) -> None:
    def of(length: int) -> Callable[[], Walk]:
        return lambda: Walk(length)

    assert name_of(of(3)) == name_of(of(3))
    assert len({name_of(of(3)), name_of(of(4)), name_of(lambda: Walk())}) == 3
    run = train(of(2))
    assert run.config.task == f"gym:{name_of(of(2))}"
    assert set(run.episodes(table="arrays")["length"] % 2) == {0}


def test_a_partial_is_named_by_its_arguments() -> None:
    short, long = functools.partial(Walk, length=2), functools.partial(Walk, length=20)
    assert name_of(short) == name_of(functools.partial(Walk, length=2)) != name_of(long)


def test_a_run_of_a_forgotten_function_goes_on_once_it_is_given_again(
    train: Callable[..., longhaul.Run], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = train(lambda: Walk(4))
    run.agent().save(tmp_path / "kept")
    monkeypatch.setattr(plugins, "_GIVEN", {})
    with pytest.raises(ConfigError, match=r"continue from Python with longhaul.resume\(path, env"):
        longhaul.resume(run.path, total_timesteps=1024, quiet=True)
    # An exported policy acts without its environment, and says so where it needs it.
    kept = longhaul.load(tmp_path / "kept")
    assert kept.act(np.zeros(1)) in (0, 1)
    with pytest.raises(longhaul.LonghaulError, match="belongs to the script or notebook"):
        longhaul.evaluate(kept, episodes=1)
    longer = longhaul.resume(run.path, env=lambda: Walk(4), total_timesteps=1024, quiet=True)
    assert longer.metrics(table="arrays")["env_steps"][-1] == 1024
    assert longhaul.load(run.path, env=make_walk).act(np.zeros(1)) in (0, 1)


def test_a_registered_name_is_trained_and_may_be_given_anew(
    train: Callable[..., longhaul.Run],
) -> None:
    longhaul.register_env("walk", Walk)
    longhaul.register_env("walk", make_walk)
    assert train("gym:walk").config.task == "gym:walk"
    with pytest.raises(ConfigError, match="knows an environment 'CartPole-v1' already"):
        longhaul.register_env("CartPole-v1", Walk)
    with pytest.raises(ConfigError, match="may contain only"):
        longhaul.register_env("a walk", Walk)


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        (lambda: 3, "made 3, which is not a gymnasium.Env"),
        (Walk(), "is not a task: give a name such as"),
        (lambda length: Walk(length), r"needs arguments \('length'\)"),
        (f"gym:{__name__}:Wlk", "did you mean 'tests.test_api_tasks:Walk'"),
    ],
)
def test_what_makes_no_environment_is_refused(
    task: Any, problem: str, train: Callable[..., longhaul.Run], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=problem):
        train(task)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("env", [{"runtime": "processes"}, {"order": "first-come"}])
def test_workers_refuse_what_they_cannot_import(
    env: dict[str, str], train: Callable[..., longhaul.Run]
) -> None:
    with pytest.raises(ConfigError, match="no worker can import '__main__:lambda-"):
        train(lambda: Walk(4), env=env)


class Halved(gym.RewardWrapper[Any, Any]):
    """Pays a part of the reward."""

    def __init__(self, env: Any, part: float = 0.5) -> None:
        super().__init__(env)
        self.part = part

    def reward(self, reward: Any) -> Any:
        return reward * self.part


@pytest.mark.parametrize(
    ("wrapper", "paid"),
    [
        (Halved, 0.5),
        (lambda env: Halved(env, 0.25), 0.25),
        ({"use": Halved, "part": 3.0}, 3.0),
        (f"{__name__}:Halved", 0.5),
    ],
)
def test_a_reward_is_changed_by_a_wrapper(
    wrapper: Any, paid: float, train: Callable[..., longhaul.Run]
) -> None:
    run = train("gym:CartPole-v1", wrappers=[wrapper])
    episodes = run.episodes(table="arrays")
    assert (episodes["episode_return"] == paid * episodes["length"]).all()
    assert run.config.options["wrappers"]


def test_workers_refuse_a_wrapper_they_cannot_import(train: Callable[..., longhaul.Run]) -> None:
    with pytest.raises(ConfigError, match="no worker can import '__main__:lambda-"):
        train("gym:CartPole-v1", wrappers=[lambda env: env], env={"runtime": "processes"})


@pytest.mark.thorough
def test_workers_import_a_class_of_a_module(train: Callable[..., longhaul.Run]) -> None:
    assert train(Walk, env={"runtime": "processes"}).outcome is not None


@pytest.mark.thorough
def test_the_same_script_continues_its_own_class(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(
        "import sys, longhaul\nfrom tests.test_api_tasks import Walk\n"
        "class Mine(Walk): pass\n"
        "class Once(longhaul.RunListener):\n"
        "    def iteration(self, recorded):\n"
        "        if len(sys.argv) > 1: raise KeyboardInterrupt\n"
        "run = longhaul.train(Mine, total_timesteps=512, num_envs=2, quiet=True,\n"
        "    collect={'num_steps': 64}, checkpoint={'every_iterations': 1}, listeners=[Once()])\n"
        "print(run.config.task, run.metrics(table='arrays')['env_steps'].tolist())\n"
    )
    root = Path(__file__).resolve().parent.parent

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(script), *arguments],
            cwd=tmp_path,
            env={"PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=False,
        )

    assert call("stop").returncode != 0
    again = call()
    assert again.stdout == "gym:__main__:Mine [128.0, 256.0, 384.0, 512.0]\n", again.stderr
    assert len(list(tmp_path.glob("runs/*/2*"))) == 1


class Trunk(nn.Module):
    """Two layers over one vector."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(shape[0], 24), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.layers(x)
        return features


class Whole(ActorCritic):
    """A policy of its own, which happens to be the general one."""

    def __init__(self, spec: Any, config: PolicyConfig) -> None:
        whole = build_policy(spec, PolicyConfig(hidden=(8,)))
        super().__init__(whole.body, whole.policy_head, whole.value_head)


class Crooked(nn.Module):
    """Returns no features."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x.sum()


@pytest.mark.parametrize("core", ["none", "gru"])
def test_a_trunk_of_the_user_is_trained_saved_and_loaded(
    core: str, train: Callable[..., longhaul.Run], tmp_path: Path
) -> None:
    policy = {"trunk": Trunk, "core": core, "normalize_observations": True}
    run = train("gym:CartPole-v1", policy=policy)
    assert run.config.policy.trunk == f"{__name__}:Trunk"
    longhaul.load(run).save(tmp_path / "kept")
    before = list(run.agent().policy.state_dict().values())
    after = list(longhaul.load(tmp_path / "kept").policy.state_dict().values())
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert any(tuple(part.shape) == (24, 4) for part in after)


def test_a_whole_policy_of_the_user_is_trained(train: Callable[..., longhaul.Run]) -> None:
    run = train("gym:CartPole-v1", policy={"trunk": Whole})
    assert type(run.agent().policy) is Whole
    assert run.agent().act(np.zeros(4)) in (0, 1)


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ({"trunk": "natur"}, "did you mean 'nature'"),
        ({"trunk": Crooked}, r"does not fit the observation \(4,\): it returns \(\) for one"),
        ({"trunk": "os:path"}, "not a class of torch.nn.Module"),
        ({"trunk": "__main__:Lost"}, "belongs to the script or notebook that started the run"),
        ({"trunk": Trunk, "value_network": "separate"}, "conflicts with policy.trunk"),
        ({"trunk": Trunk, "joint": [8]}, "leave policy.joint empty"),
    ],
)
def test_a_trunk_that_does_not_fit_is_refused(
    policy: dict[str, Any], problem: str, train: Callable[..., longhaul.Run], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=problem):
        train("gym:CartPole-v1", policy=policy)
    assert not list(tmp_path.iterdir())
