"""metrics.parquet: a run's metrics in columns, for analysts, kept current while it trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from longhaul.core.control import Progress
from longhaul.core.errors import ConfigError
from longhaul.runs.directory import RunDirectory
from longhaul.runs.durable import sync_directory
from longhaul.runs.lock import Clocks
from longhaul.runs.reader import merged_rows
from longhaul.runs.track.tracker import NOTHING, Point, Tracker

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ModuleNotFoundError as error:
    raise ConfigError(
        "metrics.parquet needs the extra 'parquet': pip install 'longhaul-rl[parquet]'"
    ) from error

COUNTERS = ("iteration", "env_steps", "episodes")
MOST_SHARE = 0.01
"""Share of the time that writing may take."""
CHUNK = 20_000
"""Rows held as Python values at a time."""


def make_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows as a table: counters first, a column for every name, empty where it is absent."""
    names = dict.fromkeys(name for row in rows for name in row)
    ordered = [*(name for name in COUNTERS if name in names)]
    ordered += [name for name in names if name not in COUNTERS]
    columns = {}
    for name in ordered:
        kind = pa.int64() if name in COUNTERS else pa.float64()
        values = [row.get(name) for row in rows]
        numbers = [value if isinstance(value, (int, float)) else None for value in values]
        columns[name] = pa.array(numbers, kind)
    return pa.table(columns)


def join(tables: Sequence[pa.Table]) -> pa.Table:
    """Return tables below each other; a column that one lacks is empty there."""
    return pa.concat_tables(list(tables), promote_options="default")


def write_table(table: pa.Table, path: Path) -> None:
    """Replace the file by the table atomically."""
    beside = path.with_name(f".{path.name}.tmp")
    pq.write_table(table, beside, compression="zstd")
    beside.replace(path)
    sync_directory(path.parent)


def rebuild_table(directory: RunDirectory) -> int:
    """Rebuild metrics.parquet from the logs; return its number of rows."""
    rows = merged_rows(directory)
    tables = []
    while chunk := list(islice(rows, CHUNK)):
        tables.append(make_table(chunk))
    if not tables:
        return 0
    table = join(tables)
    write_table(table, directory.metrics_table)
    return int(table.num_rows)


def count_rows(path: Path) -> int | None:
    """Return how many rows the file has; None if it is missing or damaged."""
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowException):
        return None


class TableKeeper(Tracker):
    """Keeps metrics.parquet current; implements Tracker, so it runs in a separate thread."""

    def __init__(self, directory: RunDirectory, clocks: Clocks, *, every_seconds: float) -> None:
        self._directory = directory
        self._clocks = clocks
        self._every = every_seconds
        self._table: pa.Table | None = None
        self._rows: list[Mapping[str, Any]] = []
        self._not_before = 0.0

    def open(self, progress: Progress) -> int:
        """Take over what the file has of the run so far; the rest comes from the logs."""
        self._not_before = self._clocks.monotonic() + self._every
        self._rows = []
        self._table = None
        try:
            table = pq.read_table(self._directory.metrics_table)
            old = table.filter(pc.field("env_steps") <= progress.env_steps)
        except (OSError, KeyError, pa.ArrowException):
            return NOTHING
        self._table = old
        steps = old.column("env_steps").to_pylist()
        return int(max(steps)) if steps else NOTHING

    def write(self, point: Point) -> None:
        """Take a row, and write the file if it is old."""
        row: dict[str, Any] = {
            name: value for name, value in point.scalars.items() if not name.startswith("setting/")
        }
        if not row:
            return
        row |= {"env_steps": point.env_steps}
        row |= {name: int(row[name]) for name in ("iteration", "episodes") if name in row}
        self._rows.append(row)
        if len(self._rows) >= CHUNK:
            self._gather()
        if self._every > 0 and self._clocks.monotonic() >= self._not_before:
            self._save()

    def close(self) -> None:
        """Write the file a last time."""
        self._save()

    def _gather(self) -> None:
        if self._rows:
            new = make_table(self._rows)
            self._table = new if self._table is None else join([self._table, new])
            self._rows = []

    def _save(self) -> None:
        began = self._clocks.monotonic()
        self._gather()
        if self._table is not None:
            write_table(self._table, self._directory.metrics_table)
        ended = self._clocks.monotonic()
        self._not_before = ended + max(self._every, (ended - began) / MOST_SHARE)
