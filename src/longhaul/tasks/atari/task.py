"""Building a task from the name of an Atari game."""

from __future__ import annotations

from pathlib import Path

from longhaul.core.env import BatchedEnvs
from longhaul.core.metrics import Panel
from longhaul.core.task import Task
from longhaul.nets.config import build_policy
from longhaul.tasks.atari.games import GamesFactory
from longhaul.tasks.atari.options import AtariOptions, find_game
from longhaul.tasks.kind import TaskKind, TaskRequest


def build(request: TaskRequest) -> Task:
    """Return the task of playing one game."""
    factory = GamesFactory.of(request.argument, find_game(request.argument), request.options)
    return Task(
        name=f"atari:{request.argument}",
        envs=BatchedEnvs(factory.spec, factory),
        make_policy=lambda: build_policy(factory.spec, request.policy),
        summarize=lambda episodes: {},
        facts={"episodes.limit_key": "options.max_frames"},
        panels=(Panel("Score of whole games", ("rollout/ep_rew_mean", "eval/mean_reward")),),
    )


def check_argument(argument: str) -> None:
    """Raise if there is no such game."""
    find_game(argument)


TASK = TaskKind(
    name="atari",
    summary="Atari 2600 games, with the usual preprocessing",
    options=AtariOptions,
    build=build,
    examples=("atari:Pong", "atari:Breakout"),
    presets=Path(__file__).parent / "presets",
    check_argument=check_argument,
)
