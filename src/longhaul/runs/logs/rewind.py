"""Rewinding a log to a checkpoint without losing a byte."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from longhaul.runs.durable import storage_errors, sync_directory, write_durably
from longhaul.runs.logs.jsonl import LogMark, Row, parse_row
from longhaul.runs.logs.segments import (
    cut_log,
    feed_log,
    list_segments,
    log_size,
    read_log,
    replace_log,
)


@dataclass(frozen=True, slots=True)
class LogProblem:
    """A log that does not match the checkpoint."""

    path: Path
    reason: str
    kept: int  # lines the run continues with
    copy: Path | None  # the log as it was found; None if there was nothing to copy


@dataclass(frozen=True, slots=True)
class Rewound:
    """The result of rewinding a log: where its younger lines are, and any problem."""

    set_aside: Path | None
    problem: LogProblem | None


def rewind_log(path: Path, mark: LogMark, aside: Path, belongs: Callable[[Row], bool]) -> Rewound:
    """Cut the log at `mark`; younger lines move into the folder `aside`.

    If the bytes before the mark are not the ones the checkpoint hashed, the whole log is copied
    aside and the whole lines that `belongs` accepts stay.
    """
    with storage_errors(path):
        reason = _mismatch(path, mark)
        if reason is not None:
            return _salvage(path, aside, reason, belongs)
        if log_size(path) == mark.offset:
            return Rewound(None, None)
        kept_at = keep_aside(read_log(path, mark.offset), path, aside)
        cut_log(path, mark.offset)
        return Rewound(kept_at, None)


def _mismatch(path: Path, mark: LogMark) -> str | None:
    """Return how the log differs from its mark; None if it does not."""
    if not path.exists() and not list_segments(path):
        missing = f"is missing; the checkpoint recorded {mark.offset} bytes"
        return missing if mark.offset else None
    running = hashlib.sha256()
    length = feed_log(path, running.update, mark.offset)
    if length < mark.offset:
        return f"holds {length} bytes; the checkpoint recorded {mark.offset}"
    if running.hexdigest() != mark.sha256:
        return f"was changed within the {mark.offset} bytes that the checkpoint recorded"
    return None


def _salvage(path: Path, aside: Path, reason: str, belongs: Callable[[Row], bool]) -> Rewound:
    """Keep a copy, then continue with every whole line that belongs to the run so far."""
    is_there = path.exists() or list_segments(path)
    content = read_log(path) if is_there else b""
    copy = keep_aside(content, path, aside) if content else None
    # A salvage that was interrupted left lines in two pieces; the same line is the same row.
    found = dict.fromkeys(content.split(b"\n")[:-1])
    lines = [line + b"\n" for line in found if (row := parse_row(line)) and belongs(row)]
    replace_log(path, b"".join(lines))
    return Rewound(copy, LogProblem(path, reason, len(lines), copy))


def keep_aside(content: bytes, path: Path, aside: Path) -> Path:
    """Write `content` into the next free file of the folder and return it."""
    aside.mkdir(parents=True, exist_ok=True)
    number = 1
    while (target := aside / f"{path.stem}-{number}{path.suffix}").exists():
        number += 1
    write_durably(target, [content])
    sync_directory(aside)
    return target
