"""All runs below a folder, one line each."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from longhaul.app.text import columns
from longhaul.report.gathered import RunData, gather
from longhaul.report.series import column
from longhaul.runs.reader import list_runs as read_runs


@dataclass(frozen=True, slots=True)
class Line:
    """What one looks for in a list of runs."""

    run: str
    task: str
    name: str
    seed: int
    status: str
    steps: int
    score: float | None
    best_score: float | None
    measured_by: str
    created: str


def list_runs(root: Path, *, task: str, as_json: bool) -> str:
    """Return the runs below `root`, oldest first."""
    states = [state for state in read_runs(root) if not task or state.record.task == task]
    lines = [describe(gather(state.directory.path)) for state in states]
    if as_json:
        return json.dumps([asdict(line) for line in lines])
    if not lines:
        return f"no runs in {root}"
    rows = [
        (
            line.task,
            line.name,
            str(line.seed),
            line.status,
            f"{line.steps:,}",
            "-" if line.score is None else f"{line.score:.4g}",
            "-" if line.best_score is None else f"{line.best_score:.4g}",
            line.created[:16].replace("T", " "),
            line.run,
        )
        for line in lines
    ]
    header = ("task", "name", "seed", "status", "steps", "last", "best", "created", "run")
    return columns(rows, header=header)


def describe(run: RunData) -> Line:
    """Return one run in short; its score is the task's own, or the return while there is none."""
    record = run.state.record
    name = run.score if any(run.score in row for row in run.rows) else "rollout/ep_rew_mean"
    scores = column(run.rows, name).values
    return Line(
        run=str(run.directory.path),
        task=record.task,
        name=record.name,
        seed=record.seed,
        status=run.state.status,
        steps=int(run.last.get("env_steps", 0)),
        score=float(scores[-1]) if len(scores) else None,
        best_score=float(scores.max()) if len(scores) else None,
        measured_by=name,
        created=record.created,
    )
