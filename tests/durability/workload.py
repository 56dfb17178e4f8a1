"""The short run that is killed and cut off: every kind of file change happens in it."""

from __future__ import annotations

from pathlib import Path

from longhaul.runs.directory import RunDirectory, list_run_directories
from tests.durability.digests import run_digest

TASK = "gym:CartPole-v1"
SHORT = (
    "num_envs=2",
    "collect.num_steps=16",
    "learn.n_epochs=1",
    "learn.minibatch_size=32",
    "policy.hidden=[8]",
    "options.max_episode_steps=50",
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


def runs_in(world: Path) -> list[RunDirectory]:
    """Return the runs below a watched folder, oldest first."""
    return [
        run for task in sorted((world / "runs").glob("gym-*")) for run in list_run_directories(task)
    ]


def outcome(run: RunDirectory) -> dict[str, str]:
    """Return what must be as in the undisturbed run: logs, checkpoint, score and status."""
    score = run.final_score.read_text() if run.final_score.exists() else "missing"
    return {**run_digest(run), "score": score, "status": run.read_record().status.value}
