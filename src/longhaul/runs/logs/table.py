"""metrics.parquet: a run's metrics in columns, for analysts, kept current while it trains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
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
GROUP = 4_000
"""Rows of the file that are held at a time while it is written again."""


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


def grouped(pieces: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield all rows in tables of this schema, each of at least GROUP rows but the last."""
    held = [schema.empty_table()]
    for piece in pieces:
        held.append(piece)
        if sum(table.num_rows for table in held) >= GROUP:
            yield join(held)
            held = [schema.empty_table()]
    if len(held) > 1:
        yield join(held)


def write_tables(pieces: Iterable[pa.Table], schema: pa.Schema, path: Path) -> None:
    """Replace the file by these tables below each other, atomically."""
    beside = path.with_name(f".{path.name}.tmp")
    with pq.ParquetWriter(beside, schema, compression="zstd") as writer:
        for table in grouped(pieces, schema):
            writer.write_table(table)
    beside.replace(path)
    sync_directory(path.parent)
    # Arrow keeps what it freed, and its memory grows with every writing: 10 MB after 200 of them.
    pa.default_memory_pool().release_unused()


def add_to_table(path: Path, new: pa.Table, *, is_kept: bool) -> None:
    """Add rows to the file, of which only a part is held at a time; it is made unless `is_kept`."""
    if not is_kept:
        write_tables([new], new.schema, path)
        return
    with pq.ParquetFile(path) as old:
        schema = join([old.schema_arrow.empty_table(), new.schema.empty_table()]).schema
        pieces = (old.read_row_group(number) for number in range(old.num_row_groups))
        write_tables(chain(pieces, [new]), schema, path)


def cut_table(path: Path, env_steps: int) -> int:
    """Remove rows beyond these steps; return the steps of the last row, NOTHING without rows."""
    last, is_long = NOTHING, False
    with pq.ParquetFile(path) as old:
        for number in range(old.num_row_groups):
            steps = old.read_row_group(number, columns=["env_steps"])["env_steps"].to_pylist()
            kept = [step for step in steps if step <= env_steps]
            last = max([last, *kept])
            is_long |= len(kept) < len(steps)
        if is_long:
            pieces = (old.read_row_group(number) for number in range(old.num_row_groups))
            kept_rows = (piece.filter(pc.field("env_steps") <= env_steps) for piece in pieces)
            write_tables(kept_rows, old.schema_arrow, path)
    return int(last)


def rebuild_table(directory: RunDirectory) -> int:
    """Rebuild metrics.parquet from the logs; return its number of rows."""
    rows, written = merged_rows(directory), 0
    while chunk := list(islice(rows, CHUNK)):
        add_to_table(directory.metrics_table, make_table(chunk), is_kept=written > 0)
        written += len(chunk)
    return written


def count_rows(path: Path) -> int | None:
    """Return how many rows the file has; None if it is missing or damaged."""
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowException):
        return None


class TableKeeper(Tracker):
    """Keeps metrics.parquet current; implements Tracker, so it runs in a separate thread.

    Only rows that are not in the file yet are held: a run may have millions.
    """

    def __init__(self, directory: RunDirectory, clocks: Clocks, *, every_seconds: float) -> None:
        self._directory = directory
        self._clocks = clocks
        self._every = every_seconds
        self._is_kept = False
        """Whether the rows of the file stay."""
        self._rows: list[Mapping[str, Any]] = []
        self._not_before = 0.0

    def open(self, progress: Progress) -> int:
        """Take over what the file has of the run so far; the rest comes from the logs."""
        self._not_before = self._clocks.monotonic() + self._every
        self._rows, self._is_kept = [], False
        try:
            last = cut_table(self._directory.metrics_table, progress.env_steps)
        except (OSError, KeyError, pa.ArrowException):
            return NOTHING
        self._is_kept = True
        return last

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
        is_due = self._every > 0 and self._clocks.monotonic() >= self._not_before
        if is_due or len(self._rows) >= CHUNK:
            self._save()

    def close(self) -> None:
        """Write the file a last time."""
        self._save()

    def _save(self) -> None:
        began = self._clocks.monotonic()
        if self._rows:
            new, self._rows = make_table(self._rows), []
            add_to_table(self._directory.metrics_table, new, is_kept=self._is_kept)
            self._is_kept = True
        ended = self._clocks.monotonic()
        self._not_before = ended + max(self._every, (ended - began) / MOST_SHARE)
