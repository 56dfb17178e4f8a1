"""All runs below a folder, one line each."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from longhaul.app.text import columns
from longhaul.report.gathered import RunData, gather
from longhaul.runs.reader import list_runs as read_runs
from longhaul.runs.score import Source

SHORT = {Source.FINAL: "final", Source.EVALUATION: "evaluation", Source.TRAINING: "training"}


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
    """The last evaluation, else the training return: `source` says which."""
    source: Source | None
    measured_by: str
    interval: tuple[float, float] | None
    """The 95 % confidence interval of the score, where it is known."""
    target: float | None
    solved: bool | None
    best_evaluation: float | None
    """The best evaluation during training."""
    created: str

    def cells(self) -> tuple[str, ...]:
        """Return the line as it is printed."""
        score = "-"
        if self.score is not None and self.source is not None:
            score = f"{self.score:.4g} ({SHORT[self.source]})"
        return (
            self.task,
            self.name,
            str(self.seed),
            self.status,
            f"{self.steps:,}",
            score,
            "-" if self.solved is None else "yes" if self.solved else "no",
            "-" if self.best_evaluation is None else f"{self.best_evaluation:.4g}",
            self.created[:16].replace("T", " "),
            self.run,
        )


HEADER = (
    "task", "name", "seed", "status", "steps", "score", "solved", "best evaluation", "created",
    "run",
)  # fmt: skip


def list_runs(root: Path, *, task: str, as_json: bool) -> str:
    """Return the runs below `root`, oldest first."""
    states = [state for state in read_runs(root) if not task or state.record.task == task]
    lines = [describe(gather(state.directory.path)) for state in states]
    if as_json:
        return json.dumps([asdict(line) for line in lines])
    if not lines:
        return f"no runs in {root}"
    return columns([line.cells() for line in lines], header=HEADER)


def describe(run: RunData) -> Line:
    """Return one run in short."""
    record, reached, best = run.state.record, run.reached, run.best
    interval = None
    if reached is not None and reached.low is not None and reached.high is not None:
        interval = (reached.low, reached.high)
    return Line(
        run=str(run.directory.path),
        task=record.task,
        name=record.name,
        seed=record.seed,
        status=run.state.status,
        steps=int(run.last.get("env_steps", 0)),
        score=None if reached is None else reached.value,
        source=None if reached is None else reached.source,
        measured_by=run.score if reached is None else reached.metric,
        interval=interval,
        target=run.measure.target,
        solved=None if reached is None else reached.is_solved,
        best_evaluation=None if best is None else best.value,
        created=record.created,
    )
