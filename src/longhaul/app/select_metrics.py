"""A run's metrics picked by name, as a digest, rows or a table for other programs."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from longhaul.app.text import columns
from longhaul.core.errors import ConfigError, suggestion
from longhaul.runs.directory import RunDirectory
from longhaul.runs.reader import merged_rows

COUNTERS = ("iteration", "env_steps", "episodes")


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of a run, with the counters and the asked-for metrics alone."""

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
                f"no metric of {path} is called {pattern!r}{suggestion(pattern, known)}; "
                "* stands for anything, as in 'rollout/*'"
            )
        names |= dict.fromkeys(found)
    keep = {*COUNTERS, *names}
    return Selection(
        tuple(names),
        tuple({name: value for name, value in row.items() if name in keep} for row in rows),
    )
