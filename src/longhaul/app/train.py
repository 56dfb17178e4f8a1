"""Making and continuing runs."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from longhaul.app.assemble import build_schedule, build_settings, build_task
from longhaul.app.config import RunConfig
from longhaul.app.configure import (
    differences,
    from_values,
    parse_override,
    put_on,
    read_toml,
    refuse_timesteps,
    to_values,
)
from longhaul.app.device import choose_device
from longhaul.app.env_output import env_output
from longhaul.app.faults import keeping_tracebacks
from longhaul.app.hints import build_hints
from longhaul.app.metrics import unmeasured_metrics
from longhaul.app.plan import memory_plan, replay_plan
from longhaul.app.session import Asked, carry_out
from longhaul.app.team import help_learning
from longhaul.app.track import check_trackers
from longhaul.cluster.connect import check_cluster
from longhaul.cluster.rank import launched_rank
from longhaul.core.errors import ConfigError
from longhaul.core.task import Task
from longhaul.core.toml_words import value_words
from longhaul.runs.directory import RunDirectory, create_run, find_unfinished
from longhaul.runs.lost import has_saved
from longhaul.runs.record import begin_record
from longhaul.runs.toml import write_toml


def show_plan(config: RunConfig, *, as_json: bool) -> str:
    """Return the resolved configuration and the memory a run would take."""
    plan = memory_plan(config, build_checked(config))
    notices = [*plan.notices, *filter(None, [plan.shortage()])]
    if as_json:
        return json.dumps(
            {
                "config": to_values(config),
                "memory_bytes": plan.sizes,
                "notices": notices,
            }
        )
    return "\n".join([write_toml(to_values(config)), plan.as_text(), *notices])


def train_task(config: RunConfig, root: Path, asked: Asked) -> int:
    """Train a task, continuing an unfinished run of the same task, name and seed."""
    check_trackers(config.track)
    choose_device(config.device, require_gpu=asked.require_gpu)
    run = find_unfinished(root, config.task, config.name, config.seed)
    if run is not None and not has_saved(run) and changed_keys(run, config):
        run = None  # it never came to a checkpoint, so that there is nothing to go on with
    if run is None:
        run = begin_run(config, root)
    else:
        check_same(run, config)
    return carry_out(run, config, asked)


@env_output()
@keeping_tracebacks()
def build_checked(config: RunConfig) -> Task:
    """Return the task once its schedule, hints, network and replay were planned, for errors."""
    check_trackers(config.track)
    task = build_task(config)
    schedule = build_schedule(config, task, build_settings(config, task))
    for problem in unmeasured_metrics(schedule, task):
        raise ConfigError(f"{problem} (`longhaul metrics RUN` lists those of a run)")
    build_hints(config, task, "cpu")
    task.make_policy()
    if config.learn.replay.enabled:
        replay_plan(config, task)
    return task


def begin_run(config: RunConfig, root: Path) -> RunDirectory:
    """Make the directory of a new run; a bad task, schedule or network leaves none behind."""
    memory_plan(config, build_checked(config)).demand_room()
    record = begin_record(
        config.task, config.name, config.seed, now=datetime.now(UTC), command=sys.argv
    )
    return create_run(root, record, write_toml(to_values(config)))


def resume_run(
    path: Path, asked: Asked, *, total_timesteps: int | None, overrides: Sequence[str]
) -> int:
    """Continue the run in `path`, for longer if asked."""
    run = RunDirectory(path)
    run.read_record()
    values = read_toml(run.config)
    for override in overrides:
        values = put_on(values, parse_override(override), values["task"])
    if total_timesteps is not None:
        values["total_timesteps"] = total_timesteps
    config = from_values(values)
    if total_timesteps is not None and config.total_iterations:
        refuse_timesteps(config)
    rank = launched_rank()
    if not rank.is_leader:
        return help_learning(config, rank)
    check_same(run, config)
    check_trackers(config.track)
    check_cluster(config.cluster)
    return carry_out(run, config, asked)


def changed_keys(run: RunDirectory, config: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return the keys that would make it another run, with the run's and the asked-for value."""
    # Read as a whole config, so that a key its version did not have yet means its default.
    kept = from_values(read_toml(run.config))
    before, asked_for = (tomllib.loads(write_toml(to_values(one))) for one in (kept, config))
    return differences(before, asked_for)


def check_same(run: RunDirectory, config: RunConfig) -> None:
    """Refuse to continue a run with a configuration that would make it another run."""
    if changed := changed_keys(run, config):
        listed = ", ".join(
            f"{key}: {value_words(old)} -> {value_words(new)}"
            for key, (old, new) in changed.items()
        )
        raise ConfigError(
            f"the run {run.path} was started with another config ({listed}); give the old values "
            "to continue it, or start a new run with `train --resume never` or another --name"
        )
