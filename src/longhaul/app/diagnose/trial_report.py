"""The report of repeated trials: one line per trial, and what they add up to."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from longhaul.app.build.text import columns

Outcome = Literal["ok", "failed", "died", "stuck"]

MOST_ERRORS = 5


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One line of the report."""

    mode: str
    trial: int
    outcome: Outcome
    seconds: dict[str, float]  # per stage
    total_seconds: float
    stuck_stage: str = ""
    error: str = ""
    detail: str = ""  # a traceback, or the end of what the process wrote
    digest: str = ""
    starts_differ: bool = True


@dataclass(frozen=True, slots=True)
class Trials:
    """All trials that were made."""

    rows: tuple[TrialRow, ...]
    report: str  # the file with one line per trial

    @property
    def all_ok(self) -> bool:
        """Whether none went wrong."""
        return all(row.outcome == "ok" for row in self.rows)

    def by_mode(self) -> dict[str, list[TrialRow]]:
        """Return the trials of each mode."""
        found: dict[str, list[TrialRow]] = {}
        for row in self.rows:
            found.setdefault(row.mode, []).append(row)
        return found

    def as_text(self) -> str:
        """Return counts, timings and the commonest errors."""
        blocks = [
            columns(
                [_counts(mode, rows) for mode, rows in self.by_mode().items()],
                header=("trials", "ok", "failed", "died", "stuck", "stuck in"),
            ),
            columns(
                [line for mode, rows in self.by_mode().items() for line in _timings(mode, rows)],
                header=("seconds", "stage", "median", "p95", "max"),
            ),
        ]
        if errors := Counter(f"{row.mode}: {row.error}" for row in self.rows if row.error):
            blocks.append(
                "\n".join(f"{count} x {error}" for error, count in errors.most_common(MOST_ERRORS))
            )
        ok = [row for row in self.rows if row.outcome == "ok"]
        if ok and not any(row.starts_differ for row in ok):
            blocks.append("every episode starts alike, whatever its seed")
        return "\n\n".join([*blocks, f"one line per trial: {self.report}"])

    def as_values(self) -> dict[str, Any]:
        """Return counts and timings for programs."""
        return {
            mode: {
                "trials": len(rows),
                **Counter(row.outcome for row in rows),
                "stuck_stages": Counter(row.stuck_stage for row in rows if row.stuck_stage),
                "seconds": {
                    stage: {"median": median, "p95": p95, "max": most}
                    for stage, (median, p95, most) in _spreads(rows).items()
                },
            }
            for mode, rows in self.by_mode().items()
        }


def _counts(mode: str, rows: Sequence[TrialRow]) -> tuple[str, ...]:
    count = Counter(row.outcome for row in rows)
    stages = Counter(row.stuck_stage for row in rows if row.stuck_stage)
    where = ", ".join(f"{stage} ({times})" for stage, times in stages.most_common())
    others = (str(count["failed"]), str(count["died"]), str(count["stuck"]))
    return (mode, f"{count['ok']} of {len(rows)}", *others, where or "-")


def _timings(mode: str, rows: Sequence[TrialRow]) -> Iterator[tuple[str, ...]]:
    for stage, spread in _spreads(rows).items():
        yield (mode, stage, *(f"{seconds:.3f}" for seconds in spread))


def _spreads(rows: Sequence[TrialRow]) -> dict[str, tuple[float, float, float]]:
    """Return median, 95th percentile and maximum of each stage and of whole trials."""
    stages = dict.fromkeys(stage for row in rows for stage in row.seconds)
    spent = {
        stage: [row.seconds[stage] for row in rows if stage in row.seconds] for stage in stages
    }
    spent["all"] = [row.total_seconds for row in rows]
    return {stage: _spread(values) for stage, values in spent.items()}


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    p95 = float(np.quantile(values, 0.95, method="higher"))
    return statistics.median(values), p95, max(values)
