"""Finding the run that `train --resume auto` goes on with, and telling why it is that one."""

from __future__ import annotations

import os
import pwd
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from longhaul.app.assemble import identity
from longhaul.app.config import RunConfig
from longhaul.app.configure import from_values, read_toml
from longhaul.app.display import choose_display
from longhaul.app.session import Asked, carry_out
from longhaul.app.team import help_learning
from longhaul.app.train import begin_run, changed_keys, train_task
from longhaul.cluster.connect import check_cluster
from longhaul.cluster.rank import launched_rank
from longhaul.core.errors import ConfigError, LockedError, suggestion
from longhaul.runs.directory import RunDirectory, list_run_directories, slug
from longhaul.runs.heartbeat import read_beat
from longhaul.runs.lock import is_locked, read_holder
from longhaul.runs.lost import check_checkpoints
from longhaul.runs.record import RunRecord, Status

CHOICES = ("same", "auto", "never")
FRESH_SECONDS = 120.0
"""A heartbeat younger than this is that of a trainer that lives, on whatever machine."""
MOST_DIFFERENCES = 3
SHORT = 12
"""Digits of a fingerprint that are shown."""


@dataclass(frozen=True, slots=True)
class Match:
    """The run to go on with, if any, and what is to be told about the choice."""

    run: RunDirectory | None
    is_over: bool
    """Whether that run has already come to the end that is asked for."""
    told: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Candidate:
    run: RunDirectory
    record: RunRecord
    refusal: str = ""
    is_alive: bool = False


def fingerprint(config: RunConfig) -> str:
    """Return a short name for everything in a config that makes it this run and no other."""
    return identity(config)["config"][:SHORT]


def train_by(choice: str, config: RunConfig, root: Path, asked: Asked) -> int:
    """Train, going on with the run `--resume` means; return the exit code."""
    rank = launched_rank()
    if not rank.is_leader:
        return help_learning(config, rank)
    check_cluster(config.cluster)
    match choice:
        case "same":
            return train_task(config, root, asked)
        case "never":
            return carry_out(begin_run(config, root), config, asked)
        case "auto":
            return _train_match(config, root, asked)
    raise ConfigError(
        f"--resume {choice!r} is not known{suggestion(choice, CHOICES)}; use one of "
        f"{', '.join(CHOICES)}, or `longhaul resume RUN` for a certain run"
    )


def _train_match(config: RunConfig, root: Path, asked: Asked) -> int:
    match = find_match(root, config)
    display = choose_display(as_json=asked.as_json, quiet=asked.quiet)
    for line in match.told:
        display.notice(f"--resume auto: {line}")
    if match.is_over:
        return 0
    return carry_out(match.run or begin_run(config, root), config, asked)


def find_match(root: Path, config: RunConfig, *, wall: Callable[[], float] = time.time) -> Match:
    """Return the newest run of this task, name and fingerprint inside `root` that is ours.

    One that another trainer holds is never taken, nor is another run begun beside it: that ends
    with `LockedError`, because what is asked for is already under way. One whose checkpoints are
    gone ends with `CheckpointError`.
    """
    wanted = fingerprint(config)
    looked = _candidates(root, config, wall)
    fitting = [one for one in looked if not one.refusal]
    told = [f"{one.run.path.name}: not taken, {one.refusal}" for one in looked if one.refusal]
    alive = next((one for one in fitting if one.is_alive), None)
    if alive is not None:
        holder = read_holder(alive.run.lock)
        who = f"process {holder.pid} on {holder.host}" if holder is not None else "another process"
        raise LockedError(
            f"{alive.run.path} is the run of this name and config ({wanted}), and {who} trains it; "
            "wait for it to end, or give another --name"
        )
    for one in reversed(fitting):
        check_checkpoints(one.run)
        is_over = one.record.status is Status.FINISHED and not _is_longer(one.run, config)
        what = "is already finished" if is_over else f"goes on ({one.record.status.value} before)"
        told.append(f"{one.run.path.name}: matches name and config ({wanted}), {what}")
        return Match(one.run, is_over, tuple(told))
    told.append(
        f"no run of {config.task} called {config.name!r} with this config ({wanted}) in {root}; "
        "a new one begins"
    )
    return Match(None, is_over=False, told=tuple(told))


def _candidates(root: Path, config: RunConfig, wall: Callable[[], float]) -> list[_Candidate]:
    """Return the runs of this task and name, oldest first, with what speaks against each."""
    folder, found = root / slug(config.task), []
    for run in list_run_directories(folder):
        try:
            record = run.read_record()
        except ConfigError:
            if slug(config.name) in run.path.name:
                raise  # starting afresh beside it would hide it
            continue
        if record.name != config.name:
            continue
        refusal = _refusal(root, run, record, config)
        found.append(_Candidate(run, record, refusal, not refusal and is_held(run, wall)))
    return sorted(found, key=lambda one: (one.record.created_at.timestamp(), one.run.path))


def _refusal(root: Path, run: RunDirectory, record: RunRecord, config: RunConfig) -> str:
    """Return why a run of this name is not the one that is asked for; empty if it is."""
    if not run.path.resolve().is_relative_to(root.resolve()):
        return f"it lies outside of {root}"
    owner = run.path.stat().st_uid
    if owner != os.getuid():
        return f"it belongs to {user_name(owner)}"
    if record.task != config.task:
        return f"its task is {record.task}"
    try:
        kept = from_values(read_toml(run.config))
    except ConfigError as error:
        return f"its config cannot be read: {error}"
    if fingerprint(kept) == fingerprint(config):
        return ""
    changed = changed_keys(run, config)
    listed = [f"{key} is {old!r} there and {new!r} here" for key, (old, new) in changed.items()]
    more = f" and {len(listed) - MOST_DIFFERENCES} more" if len(listed) > MOST_DIFFERENCES else ""
    return f"{', '.join(listed[:MOST_DIFFERENCES])}{more} (config {fingerprint(kept)})"


def is_held(run: RunDirectory, wall: Callable[[], float]) -> bool:
    """Whether a trainer is at work: it holds the lock, or its heart beats on another machine.

    Not every shared disk shares its locks, so a young heartbeat of another host counts as well.
    """
    if is_locked(run.lock):
        return True
    beat, holder = read_beat(run.heartbeat), read_holder(run.lock)
    if beat is None or holder is None or holder.host == socket.gethostname():
        return False
    is_running = run.read_record().status is Status.RUNNING
    return is_running and wall() - beat.wall < FRESH_SECONDS


def _is_longer(run: RunDirectory, config: RunConfig) -> bool:
    """Whether more steps are asked for than the run was to take."""
    kept = from_values(read_toml(run.config))
    return not config.total_iterations and config.total_timesteps > kept.total_timesteps


def user_name(number: int) -> str:
    """Return what a user of this machine is called."""
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user number {number}"
