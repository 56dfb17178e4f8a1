"""The short commands that are killed and cut off: every kind of file change happens in them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from longhaul.runs.directory import RunDirectory, list_run_directories
from tests.durability.digests import run_digest

COMMON = (
    "num_envs=2",
    "collect.num_steps=16",
    "learn.n_epochs=1",
    "policy.hidden=[8]",
    "total_iterations=6",
    "evaluate.every_iterations=2",
    "evaluate.episodes=2",
    "evaluate.final_episodes=2",
    "env.check_seeds=false",
    "report.at_end=false",
    "checkpoint.every_iterations=2",
    "checkpoint.keep_last=1",
    "checkpoint.reserve_megabytes=1",
    "log.rotate_megabytes=0.002",
    "log.table=false",
)
"""Six iterations, three checkpoints of which older ones are removed, and rotated logs."""
SHORT = (*COMMON, "learn.minibatch_size=32", "options.max_episode_steps=50")
SEARCHED = (
    "num_envs=2",
    "collect.num_steps=16",
    "learn.n_epochs=1",
    "learn.minibatch_size=16",
    "policy.hidden=[8]",
    "env.check_seeds=false",
    "report.at_end=false",
    "evaluate.episodes=2",
    "checkpoint.reserve_megabytes=1",
    "log.table=false",
)
TRIALS = 3
TRIAL_STEPS = 320
SIMULATORS = 4
SEARCH_NAME = "sought"


@dataclass(frozen=True)
class Workload:
    """One command with its task."""

    task: str
    overrides: tuple[str, ...] = SHORT
    command: Literal["train", "explore", "search"] = "train"

    def folder(self, world: Path) -> Path:
        """Return where the command keeps its task's files below a watched folder."""
        return world / "runs" / self.task.replace(":", "-").lower()

    def outcome(self, world: Path) -> dict[str, str]:
        """Return what must be as if it had never been disturbed."""
        match self.command:
            case "train":
                return run_outcome(runs_in(world)[-1])
            case "explore":
                return dict(explored(self.folder(world)))
            case "search":
                return dict(searched(world, self.folder(world)))


WORKLOADS = {
    "simple": Workload("gym:CartPole-v1"),
    "workers": Workload(
        "gym:CartPole-v1", (*SHORT, "env.runtime=processes", "env.processes.workers=2")
    ),
    "recurrent": Workload(
        "probe:recall", (*COMMON, "policy.core=gru", "policy.core_size=8", "learn.minibatch_size=2")
    ),
    "replay": Workload(
        "gym:CartPole-v1",
        (
            *SHORT,
            "learn.algorithm=vtrace",
            "learn.replay.enabled=true",
            "learn.replay.capacity=128",
            "collect.overlap=true",
            "policy.core=gru",
            "policy.core_size=8",
            "policy.normalize_observations=true",
        ),
    ),
    "explore": Workload("probe:lock", ("options.positions=6", "options.choices=3"), "explore"),
    "search": Workload("gym:CartPole-v1", SEARCHED, "search"),
}


def runs_in(world: Path) -> list[RunDirectory]:
    """Return the runs below a watched folder, oldest first."""
    root = world / "runs"
    tasks = sorted(root.iterdir()) if root.is_dir() else []
    return [run for task in tasks if task.is_dir() for run in list_run_directories(task)]


def run_outcome(run: RunDirectory) -> dict[str, str]:
    """Return logs, checkpoint, score and status of a run."""
    score = run.final_score.read_text() if run.final_score.exists() else "missing"
    return {**run_digest(run), "score": score, "status": run.read_record().status.value}


def explored(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what `longhaul explore` found: its archive's digest, counts and demonstrations."""
    (kept,) = folder.glob("*.explore")
    for row in json.loads((kept / "explore.json").read_bytes())["goals"]:
        yield row["goal"], repr({**row, "seconds": 0, "demo": bool(row["demo"])})
    for demo in sorted(kept.glob("demos/*")):
        if not demo.name.endswith(".tmp"):
            yield demo.name, demo.read_text()


def searched(world: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what `longhaul search` found: every trial, its config and its run."""
    import optuna  # here, because only this workload needs it
    from optuna.storages import journal

    kept = folder / f"{SEARCH_NAME}.search"
    backend = journal.JournalFileBackend(str(kept / "journal.jsonl"))
    storage = journal.JournalStorage(backend)
    study = optuna.load_study(study_name=SEARCH_NAME, storage=storage)
    for trial in study.get_trials(deepcopy=False):
        facts = (trial.state.name, trial.params, trial.value, trial.intermediate_values)
        yield f"trial {trial.number}", repr(facts)
    for file in sorted((kept / "trials").glob("*.toml")):
        yield file.name, hashlib.sha256(file.read_bytes()).hexdigest()
    for run in runs_in(world):
        name = run.read_record().name
        yield from ((f"{name} {part}", found) for part, found in run_digest(run).items())
