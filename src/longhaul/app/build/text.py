"""Plain-text tables, and notices about slow work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager


def columns(rows: Sequence[Sequence[str]], *, header: Sequence[str] = ()) -> str:
    """Return rows as left-aligned columns two spaces apart."""
    every = [list(header), *map(list, rows)] if header else [list(row) for row in rows]
    if not every:
        return ""
    widths = [max(len(row[i]) for row in every) for i in range(len(every[0]))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in every]
    if header:
        lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def short(value: object) -> str:
    """Return a value for a table, floats with at most six digits."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def last_line(error: BaseException) -> str:
    """Return the last line of an error's message, where torch names the mismatch."""
    return str(error).strip().splitlines()[-1].strip()


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the error itself if it has none."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else repr(error)


SECONDS = 2.0


@contextmanager
def notify_if_slow(
    notify: Callable[[str], None], text: str, *, seconds: float = SECONDS
) -> Iterator[None]:
    """Report `text` once if the inside takes longer than so many seconds."""
    timer = threading.Timer(seconds, notify, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
