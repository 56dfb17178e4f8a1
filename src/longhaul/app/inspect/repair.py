"""Repairing a run's logs: listed first, changed only if asked, with backups."""

from __future__ import annotations

import importlib.util
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from longhaul.app.build.components import build_task
from longhaul.app.build.config import RunConfig
from longhaul.app.build.text import columns
from longhaul.app.evaluation.load import Run
from longhaul.core.errors import LonghaulError
from longhaul.runs.directory import RunDirectory
from longhaul.runs.lock import Clocks, RunLock
from longhaul.runs.logs.jsonl import Row, encode_row, parse_row
from longhaul.runs.logs.rewind import keep_aside
from longhaul.runs.logs.segments import list_segments, read_log, replace_log, sound_members

LOGS = ("metrics", "timings", "episodes", "events", "sessions")
AUDIT = "backfilled"
"""The field of a repaired row that names the computed counters and their formula."""
BY_ITERATION = frozenset({"metrics", "timings"})


@dataclass(frozen=True, slots=True)
class LogRepair:
    """The damage of one log, and its repaired content."""

    log: str
    lines: int
    garbage: int = 0
    torn: bool = False
    doubles: int = 0
    disordered: int = 0
    backfilled: int = 0
    damaged_segments: int = 0
    content: bytes = b""
    """The repaired log."""

    @property
    def is_sound(self) -> bool:
        """Whether there is no damage."""
        return not any(self.damage().values())

    def damage(self) -> dict[str, int]:
        """Return the count of each kind of damage."""
        names = ("garbage", "torn", "doubles", "disordered", "backfilled", "damaged_segments")
        return {name: getattr(self, name) for name in names}

    def facts(self) -> dict[str, int]:
        """Return all counts."""
        return {"lines": self.lines, **self.damage()}


@dataclass(frozen=True, slots=True)
class Repair:
    """The damage in a run's logs, and whether it was repaired."""

    run: Path
    logs: tuple[LogRepair, ...]
    table: str
    applied: bool
    backups: tuple[Path, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether there was no damage."""
        return all(log.is_sound for log in self.logs)

    def as_text(self) -> str:
        """Return a table of the logs and what was or would be done."""
        rows = [
            (one.log, *(str(int(value)) for value in one.facts().values())) for one in self.logs
        ]
        header = ("log", "lines", "garbage", "torn", "doubles", "order", "backfilled", "segments")
        lines = [columns(rows, header=header), f"metrics.parquet: {self.table}"]
        if self.applied:
            lines += [f"backup of the old log: {path}" for path in self.backups]
        elif not self.is_sound:
            lines.append("nothing was changed; --apply repairs the logs and backs up the old ones")
        return "\n".join(lines)

    def as_json(self) -> str:
        """Return the same for programs."""
        return json.dumps(
            {
                "run": str(self.run),
                "sound": self.is_sound,
                "applied": self.applied,
                "logs": {one.log: one.facts() for one in self.logs},
                "table": self.table,
                "backups": [str(path) for path in self.backups],
            }
        )


@dataclass(frozen=True, slots=True)
class Counting:
    """How to compute the steps of an iteration, for rows without that counter."""

    per_iteration: int
    formula: str

    @staticmethod
    def of(config: RunConfig) -> Counting:
        """Return the formula for a configuration."""
        rows = build_task(config).envs.spec.rows
        envs, steps = config.num_envs, config.collect.num_steps
        return Counting(
            envs * rows * steps,
            f"iteration * num_envs ({envs}) * rows ({rows}) * collect.num_steps ({steps})",
        )

    def filled(self, row: Row) -> Row:
        """Return the row with its steps and the formula they were computed by."""
        iteration = row.get("iteration")
        if not isinstance(iteration, int) or isinstance(row.get("env_steps"), int):
            return row
        computed = {"env_steps": iteration * self.per_iteration}
        return {
            "iteration": iteration,
            **computed,
            **row,
            **computed,
            AUDIT: {"env_steps": self.formula},
        }


@dataclass(slots=True)
class _Reading:
    """The lines read so far."""

    rows: list[Row] = field(default_factory=list)
    lines: dict[bytes, None] = field(default_factory=dict)
    garbage: int = 0
    doubles: int = 0


def repair_run(whole: Run, *, apply: bool) -> Repair:
    """Check a run's logs; if asked, repair them and rebuild metrics.parquet."""
    run = whole.directory
    with RunLock(run.lock, Clocks()):
        counting = Counting.of(whole.config)
        logs = tuple(examine(run.path / f"{name}.jsonl", counting.filled) for name in LOGS)
        backups = []
        if apply:
            for log in logs:
                if not log.is_sound:
                    target = run.path / f"{log.log}.jsonl"
                    backups.append(keep_aside(read_log(target), target, run.crash))
                    replace_log(target, log.content)
        table = remake_table(run, apply=apply)
        return Repair(run.path, logs, table, apply, tuple(backups))


def examine(path: Path, filled: Callable[[Row], Row]) -> LogRepair:
    """Return the damage of a log with its repaired content; changes nothing."""
    name = path.stem
    if not path.exists() and not list_segments(path):
        return LogRepair(name, 0)
    content = read_log(path)
    *whole, rest = content.split(b"\n")
    reading = _Reading()
    for line in whole:
        _take(line, reading)
    if rest and parse_row(rest) is not None:
        _take(rest, reading)  # only the line break is missing
    rows = [filled(row) for row in reading.rows] if name == "metrics" else reading.rows
    backfilled = sum(new is not old for new, old in zip(rows, reading.rows, strict=True))
    numbers = [row["iteration"] for row in rows if isinstance(row.get("iteration"), int)]
    disordered = sum(b < a for a, b in itertools.pairwise(numbers))
    if name in BY_ITERATION:
        rows = _one_each(rows, reading)
    elif name != "sessions":
        rows = sorted(rows, key=lambda row: row.get("iteration", 0))
    kept = {id(row): line for row, line in zip(reading.rows, reading.lines, strict=True)}
    lines = [kept[id(row)] + b"\n" if id(row) in kept else encode_row(row) for row in rows]
    return LogRepair(
        name,
        lines=len(rows),
        garbage=reading.garbage,
        torn=bool(rest),
        doubles=reading.doubles,
        disordered=disordered,
        backfilled=backfilled,
        damaged_segments=sum(_is_damaged(segment.path) for segment in list_segments(path)),
        content=b"".join(lines),
    )


def _take(line: bytes, reading: _Reading) -> None:
    row = parse_row(line)
    if row is None:
        reading.garbage += bool(line.strip())
    elif line in reading.lines:
        reading.doubles += 1
    else:
        reading.lines[line] = None
        reading.rows.append(row)


def _one_each(rows: list[Row], reading: _Reading) -> list[Row]:
    """Return one row per iteration, the last one written, in order; the rest are doubles."""
    by_iteration = {row["iteration"]: row for row in rows if isinstance(row.get("iteration"), int)}
    reading.doubles += len(rows) - len(by_iteration)
    return [by_iteration[number] for number in sorted(by_iteration)]


def _is_damaged(path: Path) -> bool:
    if path.suffix != ".gz":
        return False
    length = int(path.stem.rpartition("-")[2])
    return sum(map(len, sound_members(path.read_bytes()))) != length


def remake_table(run: RunDirectory, *, apply: bool) -> str:
    """Rebuild metrics.parquet if asked and possible; return its state in words."""
    if importlib.util.find_spec("pyarrow") is None:
        return "pyarrow is not installed (extra 'parquet')"
    from longhaul.runs.logs.table import count_rows, rebuild_table

    if not apply:
        there = count_rows(run.metrics_table)
        return "unreadable or missing" if there is None else f"{there} rows"
    try:
        return f"rebuilt with {rebuild_table(run)} rows"
    except (LonghaulError, OSError) as error:
        return f"could not be rebuilt: {error}"
