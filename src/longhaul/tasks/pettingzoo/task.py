"""Building a task from a PettingZoo environment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from longhaul.core.env import SingleEnvs
from longhaul.core.errors import ConfigError
from longhaul.core.metrics import Panel
from longhaul.core.task import Task
from longhaul.envs.gymnasium.wrappers import WrapperSpec
from longhaul.nets.config import build_policy, image_warnings
from longhaul.tasks.kind import TaskKind, TaskRequest
from longhaul.tasks.pettingzoo.env import ParallelFactory


@dataclass(frozen=True, slots=True)
class PettingZooOptions:
    """What can be said about a PettingZoo environment."""

    kwargs: dict[str, Any] = field(default_factory=dict)
    """Arguments for the environment, as a table: `options.kwargs.max_cycles = 100`."""
    wrappers: tuple[WrapperSpec, ...] = ()
    """Wrappers around the environment, the innermost first: `module:Class`, or a table of
    arguments whose key `use` is that."""


def check_argument(argument: str) -> None:
    """Raise if no environment can be meant."""
    if not argument:
        raise ConfigError(
            "task 'pettingzoo' needs an environment: an id, as in pettingzoo:sisl/multiwalker-v9, "
            "or a module, as in pettingzoo:my_package.my_env"
        )


def build(request: TaskRequest) -> Task:
    """Return the task of training all agents of one environment."""
    check_argument(request.argument)
    options: PettingZooOptions = request.options
    factory = ParallelFactory(request.argument, options.kwargs, options.wrappers)
    env = factory()
    env.close()
    spec = env.spec
    return Task(
        name=f"pettingzoo:{request.argument}",
        envs=SingleEnvs(spec, factory, make_drawn=replace(factory, render=True)),
        make_policy=lambda: build_policy(spec, request.policy),
        summarize=lambda episodes: {},
        warnings=image_warnings(spec, request.policy),
        panels=(
            Panel("Return, mean over the agents", ("rollout/ep_rew_mean", "eval/mean_reward")),
        ),
    )


TASK = TaskKind(
    name="pettingzoo",
    summary="any PettingZoo parallel environment, by its id or module; agents share a policy",
    options=PettingZooOptions,
    build=build,
    examples=("pettingzoo:sisl/multiwalker-v9",),
    presets=Path(__file__).parent / "presets",
    check_argument=check_argument,
)
