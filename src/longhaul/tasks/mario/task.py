"""Building the Mario task."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from longhaul.core.env import Episode
from longhaul.core.errors import ConfigError
from longhaul.core.metrics import Alias, Metric, Metrics, Panel
from longhaul.core.settings import Setting
from longhaul.core.task import Evaluation, Task
from longhaul.envs.starts import STARTS_USED
from longhaul.nets.config import build_policy
from longhaul.tasks.kind import FolderRepair, TaskKind, TaskRequest, Tool
from longhaul.tasks.mario.evaluation import (
    FINAL,
    REHEARSAL,
    SCORE,
    SOLVED,
    by_stage,
    is_cleared,
    suites,
)
from longhaul.tasks.mario.evaluation import METRICS as EVALUATION_METRICS
from longhaul.tasks.mario.game.course_view import on_stages
from longhaul.tasks.mario.game.options import SCRIPT_SHARE
from longhaul.tasks.mario.game.reward import REASONS
from longhaul.tasks.mario.game.stages import STAGES
from longhaul.tasks.mario.hints import HINTS
from longhaul.tasks.mario.options import FRONTIER_SHARE, HARD_SHARE, MarioOptions
from longhaul.tasks.mario.payments import MEANINGS, MEASURES, PREFIX, RewardOptions, TermReward
from longhaul.tasks.mario.rom import STAND_IN, find_rom
from longhaul.tasks.mario.search_space import stage_search
from longhaul.tasks.mario.side_cars import PATTERN, mend_side_car
from longhaul.tasks.mario.source import GameSource, run_probe
from longhaul.tasks.mario.stage_schedule import HELPING, OPEN, build_controllers, stage_rate
from longhaul.tasks.mario.start_places import HARD, REACH, hard_envs

if TYPE_CHECKING:
    from longhaul.core.policy import Policy
    from longhaul.core.rollout import Rollout


PANELS = (
    Panel(
        "Stages cleared",
        ("eval/clear_rate", "env/clear_rate"),
        name="clear_rate",
        right=("starts/hard_share",),
        note="evaluations begin at the true start; training episodes may begin at hard starts",
    ),
    Panel("New ground", ("eval/mean_progress", "eval/max_progress", "env/progress"), name="ground"),
    Panel(
        "What ends training episodes",
        ("env/ended/flag", "env/ended/enemy", "env/ended/pit", "env/ended/stagnation"),
        name="ends",
    ),
    Panel(
        "What is paid",
        ("reward/progress_share", "reward/death_share", "reward/flag_share", "reward/time_share"),
        name="reward",
        note="shares of all that was paid and taken in an iteration",
    ),
    Panel(
        "Where evaluated episodes end",
        ("end_x",),
        kind="histogram",
        name="ends_x",
        records="events.jsonl",
        event="evaluated",
        each="stages",
    ),
)


METRICS = (
    Metric("env/clear_rate", "share of episodes that cleared their stage"),
    Metric(
        "env/clear_rate_fresh", "share of episodes from the true start that cleared their stage"
    ),
    Metric("env/clear_rate/<stage>", "share of this stage's episodes that cleared it"),
    Metric("env/progress", "mean new ground of an episode", "pixels"),
    Metric("env/max_progress", "most new ground of an episode", "pixels"),
    Metric("env/max_x", "farthest place an episode ended at", "pixels"),
    Metric("env/score", "mean score of the game at an episode's end", "points"),
    Metric("env/forward_share", "share of environments in which Mario reached new ground"),
    Metric("env/distance", "new ground of all environments together", "pixels"),
    Metric("env/mean_x", "mean place of Mario at the rollout's end", "pixels"),
    Metric("env/farthest_x", "farthest place of Mario in any environment", "pixels"),
    Metric("env/idle_steps", "mean steps since the last new ground, at the rollout's end", "steps"),
    Metric("env/stuck_envs", "environments in which Mario reached no new ground"),
    Metric("env/paid", "sum of the rewards of all environments"),
    Metric(
        "env/paid_raw",
        "that sum without the terms of an episode's end, before `reward.scale` multiplies it",
    ),
    Metric("starts/hard_share", "share of the ended episodes that began from a kept place"),
    Metric("starts/farthest", "farthest end, from the stage's true start", "pixels of new ground"),
    Metric(
        HELPING,
        "what asks for the script: 0 nothing, 1 the beginning, 2 the bootstrap, 3 the plateau",
    ),
    Metric(OPEN, "stages that are played so far"),
    Metric("env/ended/<reason>", "share of the episodes that ended for this reason"),
)


OLD_NAMES = tuple(
    msgspec.convert({"old": old, "kind": kind, **row}, Alias)
    for kind, rows in tomllib.loads(
        (Path(__file__).parent / "old_names.toml").read_text("utf-8")
    ).items()
    for old, row in rows.items()
)
"""The names of the trainer before longhaul."""


def build(request: TaskRequest) -> Task:
    """Return the task of clearing stages."""
    options: MarioOptions = request.options
    rom = _rom_of(request.argument, options)
    source = GameSource(options.games(), rom, TermReward(options.reward))
    envs = hard_envs(source, options.starts) if options.starts.is_on else source.envs()

    def make_policy() -> Policy:
        # Before a run gets a directory: without the game there is nothing to be trained.
        find_rom(rom)
        return build_policy(source.spec, request.policy)

    return Task(
        name=f"mario:{request.argument}" if request.argument else "mario",
        envs=envs,
        make_policy=make_policy,
        summarize=summarize,
        summarize_steps=summarize_steps,
        settings=settings_of(options),
        metrics=(*METRICS, *EVALUATION_METRICS),
        aliases=OLD_NAMES,
        controllers=build_controllers(options),
        evaluation=Evaluation(
            metric=SCORE,
            solved=SOLVED,
            suite=suites(options, rom),
            during=REHEARSAL,
            final=(FINAL,),
        ),
        hints=HINTS,
        panels=PANELS,
        search=stage_search(options, rom),
        covers=on_stages(options.lottery().stages),
    )


def _rom_of(argument: str, options: MarioOptions) -> str:
    """Return which copy of the game is meant: `mario:standin` is the free one."""
    if not argument:
        return options.rom
    if argument != STAND_IN:
        raise ConfigError(
            f"there is no task 'mario:{argument}', only 'mario' and 'mario:{STAND_IN}', the free "
            "cartridge; choose stages with --set options.stages='[\"1-2\"]'"
        )
    return STAND_IN


def settings_of(options: MarioOptions) -> tuple[Setting[Any], ...]:
    """Return the settings of a run, beginning at its options' values."""
    starts = options.starts
    # Without a schedule that asks for it, a configured script is used in every episode.
    script = replace(SCRIPT_SHARE, default=0.0 if options.schedule.help.is_on else 1.0)
    hard = (
        replace(HARD_SHARE, default=starts.share, high=round(1.0 - starts.fresh_floor, 9)),
        replace(FRONTIER_SHARE, default=starts.frontier_share),
    )
    return (*options.reward.settings(), STAGES, script, *(hard if starts.is_on else ()))


def summarize(episodes: Sequence[Episode]) -> Metrics:
    """Return Mario's own figures of a rollout; absent where no episode ended."""
    if not episodes:
        return {}

    def mean(value: Callable[[Episode], float]) -> float:
        return sum(map(value, episodes)) / len(episodes)

    fresh = [episode for episode in episodes if is_fresh(episode)]
    found = {
        "env/clear_rate": mean(lambda e: float(is_cleared(e))),
        "env/progress": mean(lambda e: e.metrics["progress"]),
        "env/max_progress": max(e.metrics["progress"] for e in episodes),
        "env/max_x": max(e.metrics["x"] for e in episodes),
        "env/score": mean(lambda e: e.metrics["score"]),
    }
    if HARD in episodes[0].metrics:
        found["starts/hard_share"] = 1 - sum(not e.metrics[HARD] for e in episodes) / len(episodes)
        found["starts/farthest"] = max(e.metrics[REACH] for e in episodes)
    if fresh:
        found["env/clear_rate_fresh"] = sum(map(is_cleared, fresh)) / len(fresh)
    for name, own in by_stage(fresh).items():
        found[stage_rate(name)] = sum(map(is_cleared, own)) / len(own)
    for reason in REASONS:
        count = sum(episode.reason == reason for episode in episodes)
        if count:
            found[f"env/ended/{reason}"] = count / len(episodes)
    return found


def is_fresh(episode: Episode) -> bool:
    """Whether an episode began at the true start."""
    return not episode.metrics.get(HARD) and not episode.metrics.get(STARTS_USED)


def summarize_steps(rollout: Rollout) -> Metrics:
    """Return how Mario moved in a rollout and what was paid; rows that never acted are left out."""
    active = (rollout.active & ~rollout.lost).numpy()  # [T, N]
    acted = active.any(axis=0)
    if not acted.any():
        return {}
    ground, idle, raw, place = (
        np.where(active, rollout.measures[name].numpy(), 0.0)[:, acted] for name in MEASURES
    )
    # [N], the last step in which the row acted.
    last = len(active) - 1 - active[::-1, acted].argmax(axis=0)
    rows = np.arange(len(last))
    forward = (ground > 0).any(axis=0)
    return {
        "env/forward_share": float(forward.mean()),
        "env/distance": float(ground.sum(dtype=np.float64)),
        "env/mean_x": float(place[last, rows].mean(dtype=np.float64)),
        "env/farthest_x": float(place.max()),
        "env/idle_steps": float(idle[last, rows].mean(dtype=np.float64)),
        "env/stuck_envs": float((~forward).sum()),
        "env/paid": float(sum(rollout.terms.values())),
        "env/paid_raw": float(raw.sum(dtype=np.float64)),
    }


TASK = TaskKind(
    name="mario",
    summary="Super Mario Bros., stage by stage, on the NES console that comes with longhaul",
    options=MarioOptions,
    build=build,
    examples=("mario",),
    presets=Path(__file__).parent / "presets",
    default_preset="fast",
    folder_repair=FolderRepair(PATTERN, mend_side_car),
    tools=(Tool("probe", "try which action moves Mario forward: [SET] [STAGE]", run_probe),),
    setting_keys={
        HARD_SHARE.name: "options.starts.share",
        FRONTIER_SHARE.name: "options.starts.frontier_share",
        **{
            f"{PREFIX}{one.name}": f"options.reward.{one.name}"
            for one in fields(RewardOptions)
            if one.name in MEANINGS
        },
    },
    controller_keys={
        "help": "options.schedule.help",
        "stages": "options.schedule.stages",
        "hard-starts": "options.starts.adapts",
        "milestones": "options.reward.milestones_once",
        "early-window": "options.reward.early_iterations",
    },
)
