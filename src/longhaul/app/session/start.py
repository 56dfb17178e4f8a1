"""Starting and resuming runs."""

from __future__ import annotations

import json
import os
import pwd
import socket
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from longhaul.app.build.components import build_schedule, build_settings, build_task, identity
from longhaul.app.build.config import RunConfig
from longhaul.app.build.env_output import env_output
from longhaul.app.build.faults import keeping_tracebacks
from longhaul.app.build.hints import build_hints
from longhaul.app.build.memory import memory_plan, replay_plan
from longhaul.app.build.metrics import unmeasured_metrics
from longhaul.app.build.network import network_size
from longhaul.app.build.sources import (
    differences,
    from_values,
    parse_override,
    put_on,
    read_toml,
    refuse_timesteps,
    to_values,
)
from longhaul.app.evaluation.load import Run
from longhaul.app.session.continuation import Origin
from longhaul.app.session.teaching import find_lessons
from longhaul.app.session.tracking import check_trackers
from longhaul.cluster.config import launched_rank
from longhaul.cluster.connect import check_cluster
from longhaul.core.config import value_words
from longhaul.core.errors import ConfigError, LockedError, suggestion
from longhaul.core.task import Task
from longhaul.learn.backend import find_backends
from longhaul.runs.checkpoints.inspect import check_checkpoints, has_saved
from longhaul.runs.directory import (
    RunDirectory,
    RunRecord,
    Status,
    begin_record,
    create_run,
    find_unfinished,
    list_run_directories,
    slug,
)
from longhaul.runs.lock import is_locked, read_holder
from longhaul.runs.monitor.heartbeat import read_beat
from longhaul.runs.toml import write_toml


def show_plan(config: RunConfig, *, as_json: bool) -> str:
    """Return the resolved configuration, the network's size and the memory plan of a run."""
    task = build_checked(config)
    plan, network = memory_plan(config, task), network_size(config, task)
    notices = [*folder_notice(config), *plan.notices, *filter(None, [plan.shortage()])]
    if as_json:
        return json.dumps(
            {
                "config": to_values(config),
                "network": asdict(network),
                "memory_bytes": plan.sizes,
                "notices": notices,
            }
        )
    parts = (write_toml(to_values(config)), network.as_text(), "", plan.as_text(), *notices)
    return "\n".join(parts)


@env_output()
@keeping_tracebacks()
def build_checked(config: RunConfig) -> Task:
    """Return the task after building schedule, hints, network and replay plan, for errors."""
    check_trackers(config.track)
    task = build_task(config)
    schedule = build_schedule(config, task, build_settings(config, task))
    for problem in unmeasured_metrics(schedule, task):
        raise ConfigError(f"{problem} (`longhaul metrics RUN` lists those of a run)")
    build_hints(config, task, "cpu")
    learners = launched_rank().size
    find_backends(task.make_policy(), config.learn, learners=learners, begun=None)
    find_lessons(config, task)
    if config.learn.replay.enabled:
        replay_plan(config, task)
    return task


def begin_run(config: RunConfig, root: Path, origin: Origin | None = None) -> Start:
    """Create the directory of a new run, after its task, schedule and network were checked.

    With an origin, it begins with the state and the logs of that run.
    """
    if origin is not None:
        refuse_held(origin.run.directory)
    task = build_checked(config)
    memory_plan(config, task).demand_room()
    record = begin_record(
        config.task, config.name, config.seed, now=datetime.now(UTC), command=sys.argv
    )
    text = write_toml(to_values(config))
    if origin is None:
        return Start(create_run(root, record, text), config, task)
    first = origin.checkpoint.path.name
    record = replace(record, continued_from=origin.name, first_checkpoint=first)
    run = create_run(root, record, text, lambda folder: origin.copy(folder, config, task))
    return Start(run, config, task)


def refuse_held(run: RunDirectory) -> None:
    """Raise if a trainer is at work in a run: its files would change while they are copied."""
    if is_held(run, time.time):
        raise LockedError(f"{run.path} is being trained; stop it, or wait until it ends")


def find_run(path: Path, *, total_timesteps: int | None, overrides: Sequence[str]) -> Start:
    """Return the run in `path` with its config, updated by the given values."""
    run = RunDirectory(path)
    run.read_record()
    values = read_toml(run.config)
    for override in overrides:
        values = put_on(values, parse_override(override), values["task"])
    if total_timesteps is not None:
        values["total_timesteps"] = total_timesteps
    config = from_values(values)
    if total_timesteps is not None and config.length.unit != "steps":
        refuse_timesteps(config)
    check_same(run, config)
    check_trackers(config.track)
    check_cluster(config.cluster)
    return Start(run, config)


def changed_keys(run: RunDirectory, config: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return the keys that would make it a different run, with the old and the new value."""
    # Read as a whole config: a key that its version did not have has its default.
    kept = Run(run).config
    before, asked_for = (tomllib.loads(write_toml(to_values(one))) for one in (kept, config))
    return differences(before, asked_for)


def check_same(run: RunDirectory, config: RunConfig) -> None:
    """Raise if the configuration would make it a different run."""
    if changed := changed_keys(run, config):
        listed = ", ".join(
            f"{key}: {value_words(old)} -> {value_words(new)}"
            for key, (old, new) in changed.items()
        )
        raise ConfigError(
            f"the run {run.path} was started with another config ({listed}); give the old values "
            "to continue it, or start a new run with `train --resume never` or another --name"
        )


CHOICES = ("same", "auto", "never")
FRESH_SECONDS = 120.0
"""A trainer with a heartbeat younger than this counts as alive, on any machine."""
MOST_DIFFERENCES = 3
SHORT = 12
"""Digits of a fingerprint that are shown."""


@dataclass(frozen=True, slots=True)
class Start:
    """A run to train, with the task if it was built already."""

    directory: RunDirectory
    config: RunConfig
    task: Task | None = None
    is_over: bool = False
    """Whether the run already has the requested length."""


@dataclass(frozen=True, slots=True)
class Match:
    """The run to continue, if any, and the reasons for the choice."""

    run: RunDirectory | None
    is_over: bool
    """Whether that run already has the requested length."""
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Candidate:
    run: RunDirectory
    record: RunRecord
    refusal: str = ""
    is_alive: bool = False


def fingerprint(config: RunConfig) -> str:
    """Return a short hash of all config values that identify a run."""
    return identity(config)["config"][:SHORT]


def folder_notice(config: RunConfig) -> list[str]:
    """Return a notice if the run's folder cannot have the run's name."""
    if slug(config.name) == config.name.lower():
        return []
    return [f"the folder of run {config.name!r} is named {slug(config.name)!r}"]


def start_or_resume(
    config: RunConfig,
    root: Path,
    *,
    choice: str,
    notify: Callable[[str], None],
    origin: Origin | None = None,
) -> Start:
    """Return the run that `--resume` selects, or a new one if there is none to continue.

    A new run goes on from `origin`, if there is one.
    """
    if origin is not None:
        origin.check(config)
    start = _chosen(config, root, choice, notify, origin)
    if origin is not None and not origin.is_that_of(start.directory):
        raise ConfigError(
            f"{start.directory.path} has this name and does not continue {origin.run.path}; give "
            "another --name, or leave out --continue-from to resume it"
        )
    return start


def _chosen(
    config: RunConfig,
    root: Path,
    choice: str,
    notify: Callable[[str], None],
    origin: Origin | None,
) -> Start:
    check_cluster(config.cluster)
    for notice in folder_notice(config):
        notify(notice)
    match choice:
        case "same":
            return _same_run(config, root, origin)
        case "never":
            return begin_run(config, root, origin)
        case "auto":
            match = find_match(root, config)
            for line in match.reasons:
                notify(f"--resume auto: {line}")
            if match.run is None:
                return begin_run(config, root, origin)
            return Start(match.run, config, is_over=match.is_over)
    raise ConfigError(
        f"unknown --resume {choice!r}{suggestion(choice, CHOICES)}; use one of "
        f"{', '.join(CHOICES)}, or `longhaul resume RUN` for a specific run"
    )


def _same_run(config: RunConfig, root: Path, origin: Origin | None) -> Start:
    """Return the unfinished run of this task, name and seed, or a new one."""
    check_trackers(config.track)
    run = find_unfinished(root, config.task, config.name, config.seed)
    if run is not None and not has_saved(run) and changed_keys(run, config):
        run = None  # it has no checkpoint, so there is nothing to continue
    if run is None:
        return begin_run(config, root, origin)
    check_same(run, config)
    return Start(run, config)


def find_match(root: Path, config: RunConfig, *, wall: Callable[[], float] = time.time) -> Match:
    """Return this user's newest run of this task, name and fingerprint inside `root`.

    If another trainer holds it, `LockedError` is raised: the requested run is already training.
    If its checkpoints are gone, `CheckpointError` is raised.
    """
    wanted = fingerprint(config)
    looked = _candidates(root, config, wall)
    fitting = [one for one in looked if not one.refusal]
    reasons = [f"{one.run.path.name}: not taken, {one.refusal}" for one in looked if one.refusal]
    alive = next((one for one in fitting if one.is_alive), None)
    if alive is not None:
        holder = read_holder(alive.run.lock)
        who = f"process {holder.pid} on {holder.host}" if holder is not None else "another process"
        raise LockedError(
            f"{alive.run.path} has this name and config ({wanted}), and {who} is training it; "
            "wait until it ends, or give another --name"
        )
    for one in reversed(fitting):
        check_checkpoints(one.run)
        is_over = one.record.status is Status.FINISHED and not _is_longer(one.run, config)
        status = one.record.status.value
        what = "is already finished" if is_over else f"is continued (it was {status})"
        reasons.append(f"{one.run.path.name}: matches name and config ({wanted}), {what}")
        return Match(one.run, is_over, tuple(reasons))
    reasons.append(
        f"no run of {config.task} named {config.name!r} with this config ({wanted}) in {root}; "
        "starting a new one"
    )
    return Match(None, is_over=False, reasons=tuple(reasons))


def _candidates(root: Path, config: RunConfig, wall: Callable[[], float]) -> list[_Candidate]:
    """Return the runs of this task and name, oldest first, each with the reason against it."""
    folder, found = root / slug(config.task), []
    for run in list_run_directories(folder):
        try:
            record = run.read_record()
        except ConfigError:
            if slug(config.name) in run.path.name:
                raise  # a new run beside it would hide it
            continue
        if record.name != config.name:
            continue
        refusal = _refusal(root, run, record, config)
        found.append(_Candidate(run, record, refusal, not refusal and is_held(run, wall)))
    return sorted(found, key=lambda one: (one.record.created_at.timestamp(), one.run.path))


def _refusal(root: Path, run: RunDirectory, record: RunRecord, config: RunConfig) -> str:
    """Return why a run of this name is not the requested one; empty if it is."""
    if not run.path.resolve().is_relative_to(root.resolve()):
        return f"it is outside of {root}"
    owner = run.path.stat().st_uid
    if owner != os.getuid():
        return f"it belongs to {user_name(owner)}"
    if record.task != config.task:
        return f"its task is {record.task}"
    try:
        kept = Run(run).config
    except ConfigError as error:
        return f"its config cannot be read: {error}"
    if fingerprint(kept) == fingerprint(config):
        return ""
    changed = changed_keys(run, config)
    listed = [f"{key} is {old!r} there and {new!r} here" for key, (old, new) in changed.items()]
    more = f" and {len(listed) - MOST_DIFFERENCES} more" if len(listed) > MOST_DIFFERENCES else ""
    return f"{', '.join(listed[:MOST_DIFFERENCES])}{more} (config {fingerprint(kept)})"


def is_held(run: RunDirectory, wall: Callable[[], float]) -> bool:
    """Whether a trainer holds the lock, or has a fresh heartbeat from another host.

    Not every shared disk shares its locks, so a fresh heartbeat of another host counts as well.
    """
    if is_locked(run.lock):
        return True
    beat, holder = read_beat(run.heartbeat), read_holder(run.lock)
    if beat is None or holder is None or holder.host == socket.gethostname():
        return False
    is_running = run.read_record().status is Status.RUNNING
    return is_running and wall() - beat.wall < FRESH_SECONDS


def _is_longer(run: RunDirectory, config: RunConfig) -> bool:
    """Whether the config has a greater length than the run's own, counted alike."""
    kept, wanted = Run(run).config.length, config.length
    return kept.unit == wanted.unit != "iterations" and wanted.total > kept.total


def user_name(number: int) -> str:
    """Return the name of a user of this machine."""
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user number {number}"
