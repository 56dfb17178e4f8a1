"""Selecting metrics of a run, and following its logs."""

from __future__ import annotations

import csv
import io
import json
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from longhaul.app.build.text import columns, short
from longhaul.core.errors import ConfigError, suggestion
from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.follow import LogFollower, Row
from longhaul.runs.reader import merged_rows, read_run

COUNTERS = ("iteration", "env_steps", "episodes")


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of a run, with the counters and the selected metrics."""

    names: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]

    def as_text(self) -> str:
        """Return the last value, mean and extremes of each metric."""
        lines = []
        for name in self.names:
            values = [row[name] for row in self.rows if name in row]
            mean = math.fsum(values) / len(values)
            shown = (values[-1], mean, min(values), max(values))
            lines.append((name, *(f"{value:,.6g}" for value in shown), str(len(values))))
        head = f"{len(self.rows)} iterations"
        table = columns(lines, header=("metric", "last", "mean", "min", "max", "rows"))
        return f"{head}\n\n{table}"

    def as_json(self) -> str:
        """Return one object per iteration."""
        return json.dumps(list(self.rows))

    def as_csv(self) -> str:
        """Return one line per iteration, empty where a metric is absent."""
        out = io.StringIO()
        writer = csv.DictWriter(out, [*COUNTERS, *self.names], lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return out.getvalue().rstrip("\n")


def select_metrics(path: Path, patterns: Sequence[str], *, last: int = 0) -> Selection:
    """Return the metrics of a run whose names match; all of them without a pattern."""
    run = RunDirectory(path)
    run.read_record()
    rows = list(merged_rows(run))
    if last > 0:
        rows = rows[-last:]
    known = sorted({name for row in rows for name in row} - set(COUNTERS))
    wanted = [part.strip() for pattern in patterns for part in pattern.split(",") if part.strip()]
    names: dict[str, None] = {}
    for pattern in wanted or ["*"]:
        found = [name for name in known if fnmatchcase(name, pattern)]
        if not found and known:
            raise ConfigError(
                f"no metric of {path} matches {pattern!r}{suggestion(pattern, known)}; "
                "* matches any text, as in 'rollout/*'"
            )
        names |= dict.fromkeys(found)
    keep = {*COUNTERS, *names}
    return Selection(
        tuple(names),
        tuple({name: value for name, value in row.items() if name in keep} for row in rows),
    )


POLL_SECONDS = 1.0
SHOWN = (
    ("return", "rollout/ep_rew_mean", ".4g"),
    ("length", "rollout/ep_len_mean", ".4g"),
    ("evaluation", "eval/mean_reward", ".4g"),
    ("kl", "train/approx_kl", ".2g"),
    ("value loss", "train/value_loss", ".3g"),
)
LOGS = ("metrics", "timings", "episodes", "events", "sessions", "resources")


def tail_run(
    path: Path,
    log: str,
    *,
    lines: int,
    follow: bool,
    as_json: bool = False,
    wait: Callable[[float], None] = time.sleep,
) -> Iterator[str]:
    """Yield the last lines of a log, and with `follow` new ones until the run ends."""
    run = RunDirectory(path)
    run.read_record()
    if log not in LOGS:
        raise ConfigError(f"there is no log {log!r}{suggestion(log, LOGS)} ({', '.join(LOGS)})")
    file = path / f"{log}.jsonl"
    log_file = LogFollower(file)
    for row in deque(log_file.new_rows(), maxlen=lines):
        yield _line(row, as_json=as_json)
    while follow:
        # Checked before reading: a run that is no longer alive has written its last row.
        is_alive = read_run(run).is_alive
        for row in log_file.new_rows():
            yield _line(row, as_json=as_json)
        if not is_alive:
            return
        wait(POLL_SECONDS)


def _line(row: Row, *, as_json: bool) -> str:
    if as_json:
        return json.dumps(row)
    if "train/loss" not in row and "rollout/episodes" not in row:
        return "  ".join(f"{name}={short(value)}" for name, value in row.items())
    words = [f"iteration {row.get('iteration')}", f"{row.get('env_steps', 0):,} steps"]
    words += [f"{label} {row[name]:{form}}" for label, name, form in SHOWN if name in row]
    return "  ".join(words)
