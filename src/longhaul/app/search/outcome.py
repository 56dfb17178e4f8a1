"""What a trial's run has come to: its curve, its score, and how it failed if it did."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from longhaul.app.config import RunConfig
from longhaul.app.search.plan import STAGES, Direction, Take, share_of
from longhaul.core.errors import suggestion
from longhaul.runs.jsonl import Row

CLEAN_STOPS = (130, 143, -signal.SIGTERM, -signal.SIGINT)
"""Stopped after a checkpoint, or before there was anything to save."""
TAIL = 0.75
"""Where the last stretch of a run begins, over which its score is the mean."""
LONGEST_WORDS = 300

_KINDS = {
    2: "config",
    3: "environment",
    4: "numbers",
    5: "checkpoint",
    6: "resources",
    7: "locked",
}
CRASHED, STOPPED, TIMEOUT, UNMEASURED = "crashed", "stopped", "timeout", "unmeasured"


@dataclass(frozen=True, slots=True)
class Point:
    """One iteration of a trial: how far it was, and the metric if it was measured then."""

    share: float
    value: float | None


@dataclass(frozen=True, slots=True)
class Failure:
    """How a trial failed, and what it said."""

    kind: str
    words: str


def curve(rows: Iterable[Row], metric: str, config: RunConfig) -> list[Point]:
    """Return a run's iterations, in order."""
    points = []
    for row in rows:
        value = row.get(metric)
        number = float(value) if isinstance(value, (int, float)) else None
        points.append(Point(share_of(row, config), number))
    return points


def stages(points: Sequence[Point]) -> dict[int, float]:
    """Return the metric at the end of each stage the run has passed.

    That is the last value by the first iteration past the stage's end, so that it does not depend
    on when one looks. A stage before the first value is left out.
    """
    found: dict[int, float] = {}
    latest, passed = None, 0
    for point in points:
        latest = point.value if point.value is not None else latest
        # A last iteration may fall short of its stage's end by a rounding error.
        reached = int(point.share * STAGES + 1e-9)
        if latest is not None:
            found |= dict.fromkeys(range(passed + 1, reached + 1), latest)
        passed = max(passed, reached)
    return found


def score(points: Sequence[Point], take: Take, direction: Direction) -> float | None:
    """Return what a finished run came to; None if the metric was never measured."""
    measured = [(point.share, point.value) for point in points if point.value is not None]
    if not measured:
        return None
    values = [value for _, value in measured]
    match take:
        case "last":
            return values[-1]
        case "best":
            return max(values) if direction == "maximize" else min(values)
        case "mean":
            return sum(values) / len(values)
        case "tail":
            tail = [value for share, value in measured if share > TAIL] or values[-1:]
            return sum(tail) / len(tail)


def failure(code: int, log: str) -> Failure:
    """Return how a run failed that ended with this exit code, in its own words."""
    words = _last_words(log)
    if code in CLEAN_STOPS:
        return Failure(STOPPED, words or "the run was stopped by somebody else")
    if code < 0:
        name = signal.Signals(-code).name
        return Failure(CRASHED, f"killed by {name}" + (f": {words}" if words else ""))
    return Failure(_KINDS.get(code, CRASHED), words or f"exit code {code}")


def unmeasured(metric: str, rows: Sequence[Row]) -> Failure:
    """Return the failure of a run that ended well without ever measuring the objective."""
    known = sorted({name for row in rows for name in row if "/" in name})
    close = suggestion(metric, known)
    return Failure(UNMEASURED, f"the run never measured {metric}{close}")


def _last_words(log: str) -> str:
    """Return the line that says what went wrong: the command's own, or the last one."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("longhaul: ")]
    line = own[-1].removeprefix("longhaul: ") if own else lines[-1] if lines else ""
    return line[:LONGEST_WORDS]
