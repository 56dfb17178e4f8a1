"""What comes out of measuring a checkpoint on the suites of its task."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from longhaul.app.paired import Paired
from longhaul.app.text import columns
from longhaul.core.env import Episode
from longhaul.core.metrics import Metrics
from longhaul.core.suite import Column, Interval

TRAINED = "trained"
INTERVAL = "  95 % interval"
BOUND = "bound"


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """One suite, played by a checkpoint and by policies that learned nothing."""

    suite: str
    metrics: Metrics
    intervals: Mapping[str, Interval]
    bounds: Metrics
    references: dict[str, Metrics]
    columns: tuple[Column, ...]
    episodes: tuple[Episode, ...]
    paired: tuple[Paired, ...] = ()
    scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Of every policy that was played, what each of its episodes scored."""

    def as_text(self) -> str:
        """Return a table with a row for each policy, and the comparisons below it."""
        shown = self.columns or tuple(Column(name, name) for name in self.metrics)
        rows = [[name, *_cells(shown, found)] for name, found in self.references.items()]
        rows.append([TRAINED, *_cells(shown, self.metrics)])
        rows.append([INTERVAL, *(_interval(column, self.intervals) for column in shown)])
        if self.bounds:
            rows.append([BOUND, *_cells(shown, self.bounds)])
        header = (f"{self.suite}, {len(self.episodes)} episodes", *(c.title for c in shown))
        lines = [columns(rows, header=header)]
        lines += [f"{TRAINED} {paired.as_text()}" for paired in self.paired]
        return "\n".join(lines)

    def as_values(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "suite": self.suite,
            "columns": [asdict(column) for column in self.columns],
            "metrics": dict(self.metrics),
            "intervals": dict(self.intervals),
            "bounds": dict(self.bounds),
            "references": {name: dict(found) for name, found in self.references.items()},
            "paired": [asdict(paired) for paired in self.paired],
            "scores": [
                {"player": name, "scores": list(found)} for name, found in self.scores.items()
            ],
            "episodes": [asdict(episode) for episode in self.episodes],
        }


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """A checkpoint on one or more suites."""

    task: str
    checkpoint: str
    greedy: bool
    results: tuple[SuiteResult, ...]
    score: str
    solved: float | None = None
    passed_over: tuple[str, ...] = field(default=())

    def as_json(self) -> str:
        """Return everything, for programs; the same checkpoint and suites, the same digits."""
        return json.dumps(
            {
                "task": self.task,
                "checkpoint": self.checkpoint,
                "greedy": self.greedy,
                "score": self.score,
                "solved": self.solved,
                "suites": [result.as_values() for result in self.results],
                "passed_over": list(self.passed_over),
            },
            allow_nan=False,
        )

    def as_text(self) -> str:
        """Return the tables of all suites."""
        acts = "most likely actions" if self.greedy else "drawn actions"
        blocks = [*self.passed_over, f"{self.task}, checkpoint {self.checkpoint}, {acts}"]
        blocks += [result.as_text() for result in self.results]
        if self.solved is not None:
            found = self.results[0].metrics[self.score]
            verdict = "reached" if found >= self.solved else "not reached"
            blocks.append(f"{self.results[0].suite}: {self.score} {self.solved:g} {verdict}")
        return "\n\n".join(blocks)


def _cells(shown: tuple[Column, ...], found: Metrics) -> list[str]:
    return [f"{found[c.metric]:{c.form}}" if c.metric in found else "" for c in shown]


def _interval(column: Column, intervals: Mapping[str, Interval]) -> str:
    if column.metric not in intervals:
        return ""
    low, high = intervals[column.metric]
    return f"{low:{column.form}}..{high:{column.form}}"
