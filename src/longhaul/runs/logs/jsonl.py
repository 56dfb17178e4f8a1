"""Append-only logs of one JSON object per line, with a running hash; and that of sessions."""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from longhaul.core.errors import LonghaulError, NumericalError
from longhaul.core.system import sync_file
from longhaul.runs.directory import RunDirectory, Status, write_status
from longhaul.runs.durable import replace_file, storage_errors, sync_directory, write_all
from longhaul.runs.lock import Clocks
from longhaul.runs.logs.segments import (
    compress_sealed,
    feed_log,
    list_segments,
    read_log,
    seal,
    sealed_length,
)

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LogMark:
    """A position in a log: its first `offset` bytes and their SHA-256."""

    offset: int
    sha256: str


LOG_START = LogMark(0, hashlib.sha256().hexdigest())
"""The mark of an empty log."""


def encode_row(row: Mapping[str, Any]) -> bytes:
    """Return one line: the row's own order of keys, no spaces, no NaN."""
    try:
        text = _ENCODER.encode(row)
    except ValueError as error:
        raise NumericalError(f"{_find_non_finite(row)} cannot be logged") from error
    return text.encode() + b"\n"


def _plain_number(value: object) -> object:
    """Return a NumPy scalar as a Python number, which JSON can hold."""
    item = value.item() if hasattr(value, "item") else value
    if not isinstance(item, (bool, int, float, str)):
        raise TypeError(
            f"a log row holds {value!r}, a {type(value).__name__}, which JSON cannot hold"
        )
    if isinstance(item, float) and not math.isfinite(item):
        raise ValueError("not finite")
    return item


_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_plain_number)


def _find_non_finite(value: object, path: str = "") -> str:
    """Return `name = nan` for the first number that is not finite, or an empty text."""
    if isinstance(value, Mapping):
        named = [(f"{path}.{key}" if path else str(key), part) for key, part in value.items()]
    elif isinstance(value, (list, tuple)):
        named = [(path, part) for part in value]
    elif value is None or isinstance(value, (str, bool, int)):
        return ""
    else:
        number = float(cast(float, value))
        return "" if math.isfinite(number) else f"{path} = {number}"
    found = (_find_non_finite(part, name) for name, part in named)
    return next(filter(None, found), "")


class LogWriter:
    """Appends rows to a log; flushed rows survive the process, synced rows a power cut.

    With `rotate_bytes` a file of that size is sealed and compressed, and a new one started.
    Offsets and hashes are those of the whole log, so callers need not know about segments.
    """

    def __init__(self, path: Path, *, rotate_bytes: int = 0) -> None:
        self.path = path
        self._rotate_bytes = rotate_bytes
        self._pending: list[bytes] = []
        self._running = hashlib.sha256()
        with storage_errors(path):
            compress_sealed(path)
            self._descriptor = self._open()
            self._offset = feed_log(path, self._running.update)
            self._begin = sealed_length(path)
            size = self._offset - self._begin
            last = os.pread(self._descriptor, 1, max(0, size - 1))
            sync_directory(path.parent)
        if last not in (b"", b"\n"):
            # A killed writer left half a line. Ending it keeps the next line readable.
            self._pending.append(b"\n")
            self.flush()

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self.path, flags, 0o644)

    def append(self, line: bytes) -> None:
        """Add a line made by `encode_row`; it is written by the next flush."""
        self._pending.append(line)

    def flush(self) -> None:
        """Hand the lines to the system, all of them or none."""
        content = b"".join(self._pending)
        if not content:
            return
        with storage_errors(self.path):
            try:
                write_all(self._descriptor, content)
            except OSError:
                os.ftruncate(self._descriptor, self._offset - self._begin)
                raise
        self._pending.clear()
        self._running.update(content)
        self._offset += len(content)
        if 0 < self._rotate_bytes <= self._offset - self._begin:
            self._rotate()

    def _rotate(self) -> None:
        """Begin a new file; the full one is compressed beside it."""
        with storage_errors(self.path):
            sync_file(self._descriptor)
            os.close(self._descriptor)
            seal(self.path)
            self._descriptor = self._open()
            self._begin = self._offset
            compress_sealed(self.path)

    def sync(self) -> None:
        """Flush and force the log to disk."""
        self.flush()
        with storage_errors(self.path):
            sync_file(self._descriptor)

    def mark(self) -> LogMark:
        """Return the position after the last line, flushing first."""
        self.flush()
        return LogMark(self._offset, self._running.hexdigest())

    def close(self) -> None:
        """Flush and close; does nothing the second time."""
        if self._descriptor >= 0:
            try:
                self.flush()
            finally:
                os.close(self._descriptor)
                self._descriptor = -1


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that a tolerant reader found, the number of skipped lines, and where it ended."""

    rows: list[Row]
    skipped: int
    offset: int  # after the last whole line; reading continues from here


def parse_row(line: bytes) -> Row | None:
    """Return the object on one line, or None if there is none."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def read_rows(path: Path, offset: int = 0) -> Rows:
    """Return all whole rows from `offset` on; garbage and a torn last line are skipped."""
    try:
        content = read_log(path, offset)
    except FileNotFoundError:
        return Rows([], 0, offset)
    lines = content.split(b"\n")
    torn = lines.pop()
    found = [parse_row(line) for line in lines]
    rows = [row for row in found if row is not None]
    skipped = len(found) - len(rows) + bool(torn)
    return Rows(rows, skipped, offset + len(content) - len(torn))


def iterate_rows(path: Path) -> Iterator[Row]:
    """Yield all whole rows, a piece of the log at a time."""
    for segment in list_segments(path):
        for line in segment.read().split(b"\n"):
            if (row := parse_row(line)) is not None:
                yield row
    if path.exists():
        with path.open("rb") as file:
            for line in file:
                # A torn last line has no end yet.
                if line.endswith(b"\n") and (row := parse_row(line)) is not None:
                    yield row


SCHEMA = 2
"""Of the rows this version writes. 1: no schema.json, fewer metrics, the same names."""

Renames = Mapping[int, Mapping[str, str]]
RENAMED: Renames = {}
"""By schema version, the names it changed: old name to new name."""


def write_schema(run: RunDirectory, content: Mapping[str, Any]) -> None:
    """Write the schema beside the rows, for readers of later versions."""
    with storage_errors(run.schema):
        replace_file(run.schema, json.dumps(content, indent=1).encode() + b"\n", durable=False)


def read_schema(run: RunDirectory) -> int:
    """Return the version of a run's rows; a run without one is of the first."""
    try:
        content = json.loads(run.schema.read_bytes())
        return int(content["schema"])
    except (OSError, ValueError, KeyError, TypeError):
        return 1


def upgraded(row: Row, version: int, renamed: Renames = RENAMED) -> Row:
    """Return a row of an older version under the present names; unknown names stay."""
    if version >= SCHEMA or not renamed:
        return row
    for later in sorted(renamed):
        if later > version:
            names = renamed[later]
            row = {names.get(name, name): value for name, value in row.items()}
    return row


class WriteNote(Protocol):
    """Writes an event, with the time."""

    def __call__(self, event: str, **facts: Any) -> None:
        """Take one event."""


class SessionLog:
    """Writes the sessions of one process; any thread may write."""

    def __init__(self, directory: RunDirectory, clocks: Clocks) -> None:
        self._directory = directory
        self.clocks = clocks
        self._log = LogWriter(directory.sessions)
        # Faults of environments come from the thread that collects, signals from the main one.
        self._noting = threading.RLock()

    def note(self, event: str, **facts: Any) -> None:
        """Write an event of this process, with the time."""
        row = {"time": self.clocks.stamp(), "event": event, "pid": os.getpid(), **facts}
        with self._noting:
            self._log.append(encode_row(row))
            self._log.sync()

    def finish(self, status: Status, reason: str) -> None:
        """Record how and why the run ended."""
        with suppress(LonghaulError, OSError):  # a full disk must not hide the reason itself
            self.note(status.value, reason=reason)
        write_status(self._directory.record, status, reason)

    def close(self) -> None:
        """Close the file."""
        self._log.close()
