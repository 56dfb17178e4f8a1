"""Saying what takes so long, only if it does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS = 2.0


@contextmanager
def telling_if_slow(
    tell: Callable[[str], None], text: str, *, seconds: float = SECONDS
) -> Iterator[None]:
    """Tell `text` once if what is done inside takes longer than so many seconds."""
    timer = threading.Timer(seconds, tell, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
