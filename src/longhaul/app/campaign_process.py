"""One slice of a campaign: a command that is run for a while and then asked to stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from longhaul.app.child_process import Child

POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Piece:
    """A command, where its words go, and when it has done enough."""

    command: Sequence[str]
    log: Path
    seconds: float
    is_enough: Callable[[], bool]
    """Whether to stop before the time is up: the goal is reached, or somebody asks for it."""


def carry_out(piece: Piece) -> int:
    """Run the command for its time, less if that is enough; return its exit code.

    It is asked to stop by SIGTERM, so that a run leaves a checkpoint; whatever happens to this
    process, the command does not outlive it.
    """
    child = Child(piece.command, piece.log)
    until = time.monotonic() + piece.seconds
    try:
        while child.poll() is None and time.monotonic() < until:
            if piece.is_enough():
                break
            child.wait(min(POLL_SECONDS, max(until - time.monotonic(), 0.0)))
    finally:
        code = child.end()
    return code
