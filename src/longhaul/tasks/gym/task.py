"""Building a task from a Gymnasium environment id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import find_highest_version, get_env_id, parse_env_id

from longhaul.core.env import Episode
from longhaul.core.errors import ConfigError
from longhaul.core.metrics import Metrics
from longhaul.core.panel import Panel
from longhaul.core.task import Evaluation, Task
from longhaul.envs.gymnasium_env import GymnasiumFactory, gymnasium_envs
from longhaul.nets.actor_critic import build_policy
from longhaul.tasks.kind import TaskKind, TaskRequest


@dataclass(frozen=True, slots=True)
class Options:
    """What can be said about a Gymnasium environment."""

    kwargs: dict[str, Any] = field(default_factory=dict)
    """Arguments for `gymnasium.make`, as a table: `options.kwargs.sutton_barto_reward = true`."""
    max_episode_steps: int = 0
    """Cut episodes after so many steps; 0 keeps the environment's own limit."""

    def __post_init__(self) -> None:
        if self.max_episode_steps < 0:
            raise ConfigError(
                f"options.max_episode_steps = {self.max_episode_steps} cannot be negative; "
                "0 keeps the environment's own limit"
            )


def build(request: TaskRequest) -> Task:
    """Return the task of training on one Gymnasium environment."""
    if not request.argument:
        raise ConfigError("task 'gym' needs an environment id, for example gym:CartPole-v1")
    options: Options = request.options
    kwargs = dict(options.kwargs)
    if options.max_episode_steps:
        kwargs["max_episode_steps"] = options.max_episode_steps
    envs = gymnasium_envs(GymnasiumFactory(request.argument, kwargs))
    spec = envs.spec
    return Task(
        name=f"gym:{request.argument}",
        envs=envs,
        make_policy=lambda: build_policy(spec, request.policy),
        summarise=no_figures,
        evaluation=Evaluation(solved=_threshold(request.argument)),
        panels=(Panel("Return", ("rollout/ep_rew_mean", "eval/mean_reward")),),
    )


def _threshold(env_id: str) -> float | None:
    """Return the score Gymnasium counts as solved, for an id from which envs were made."""
    # `gym.make` takes a module in front and fills in a missing version, `gym.spec` does neither.
    known = env_id.rpartition(":")[2]
    if known not in gym.registry:
        namespace, name, _ = parse_env_id(known)
        known = get_env_id(namespace, name, find_highest_version(namespace, name))
    return gym.spec(known).reward_threshold


def no_figures(episodes: Sequence[Episode]) -> Metrics:
    """Return nothing: a general environment has no figures of its own."""
    return {}


TASK = TaskKind(
    name="gym",
    summary="any Gymnasium environment, by its id",
    options=Options,
    build=build,
    examples=("gym:CartPole-v1", "gym:Acrobot-v1", "gym:LunarLander-v3"),
    presets=Path(__file__).parent / "presets",
)
