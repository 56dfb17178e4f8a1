"""Building a task from a Gymnasium environment id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longhaul.core.config import AT_LEAST_0, check_ranges
from longhaul.core.env import Episode
from longhaul.core.errors import ConfigError
from longhaul.core.metrics import Metrics, Panel
from longhaul.core.task import Evaluation, Task
from longhaul.envs.gymnasium.env import GymnasiumFactory, probe
from longhaul.envs.gymnasium.make import check_id, refuse_local
from longhaul.envs.gymnasium.wrappers import WrapperSpec
from longhaul.nets.config import build_policy, image_warnings
from longhaul.tasks.kind import TaskKind, TaskRequest


@dataclass(frozen=True, slots=True)
class GymOptions:
    """What can be said about a Gymnasium environment."""

    kwargs: dict[str, Any] = field(default_factory=dict)
    """Arguments for `gymnasium.make`, as a table: `options.kwargs.sutton_barto_reward = true`."""
    wrappers: tuple[WrapperSpec, ...] = ()
    """Wrappers around the environment, the innermost first: `module:Class`, or a table of
    arguments whose key `use` is that, as `{ use = "gymnasium.wrappers:FrameStackObservation",
    stack_size = 4 }`."""
    max_episode_steps: int = 0
    """Cut episodes after so many steps; 0 keeps the environment's own limit."""

    def __post_init__(self) -> None:
        check_ranges(self, "options", {AT_LEAST_0: "max_episode_steps"})


def check_argument(argument: str) -> None:
    """Raise if no environment can be meant."""
    if not argument:
        raise ConfigError("task 'gym' needs an environment id, for example gym:CartPole-v1")
    check_id(argument)


def build(request: TaskRequest) -> Task:
    """Return the task of training on one Gymnasium environment."""
    check_argument(request.argument)
    options: GymOptions = request.options
    if request.env.runtime == "processes" or request.env.order == "first-come":
        refuse_local(request.argument, options.wrappers)
    kwargs = dict(options.kwargs)
    if options.max_episode_steps:
        kwargs["max_episode_steps"] = options.max_episode_steps
    known = probe(GymnasiumFactory(request.argument, kwargs, options.wrappers), request.env)
    spec = known.envs.spec
    return Task(
        name=f"gym:{request.argument}",
        envs=known.envs,
        make_policy=lambda: build_policy(spec, request.policy),
        summarize=no_figures,
        evaluation=Evaluation(solved=known.solved),
        warnings=image_warnings(spec, request.policy),
        facts={"episodes.limit_key": "options.max_episode_steps"},
        panels=(Panel("Return", ("rollout/ep_rew_mean", "eval/mean_reward")),),
    )


def no_figures(episodes: Sequence[Episode]) -> Metrics:
    """Return no metrics: a general environment has none."""
    return {}


TASK = TaskKind(
    name="gym",
    summary="any Gymnasium environment, by its id",
    options=GymOptions,
    build=build,
    examples=("gym:CartPole-v1", "gym:Acrobot-v1", "gym:LunarLander-v3", "gym:HalfCheetah-v5"),
    presets=Path(__file__).parent / "presets",
    check_argument=check_argument,
)
