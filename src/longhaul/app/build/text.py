"""Plain-text tables for people."""

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


SECONDS = 2.0


@contextmanager
def notify_if_slow(
    notify: Callable[[str], None], text: str, *, seconds: float = SECONDS
) -> Iterator[None]:
    """Tell `text` once if what is done inside takes longer than so many seconds."""
    timer = threading.Timer(seconds, notify, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
