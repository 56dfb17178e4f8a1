"""One slice of a campaign: a command that is run for a while and then asked to stop."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 1.0
END_SECONDS = 120.0
"""How long a run may take to write its last checkpoint."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A command, where its words go, and when it has done enough."""

    command: Sequence[str]
    log: Path
    seconds: float
    has_reached: Callable[[], bool]
    """Whether the command has come to its goal before the time is up."""


def carry_out(piece: Piece) -> int:
    """Run the command for its time, less if it has reached its goal; return its exit code.

    It is asked to stop by SIGTERM, so that a run leaves a checkpoint; whatever happens to this
    process, the command does not outlive it.
    """
    with piece.log.open("wb") as output:
        process = subprocess.Popen(piece.command, stdout=output, stderr=subprocess.STDOUT)
        until = time.monotonic() + piece.seconds
        try:
            while process.poll() is None and time.monotonic() < until:
                if piece.has_reached():
                    break
                _wait(process, min(POLL_SECONDS, max(until - time.monotonic(), 0.0)))
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                _wait(process, END_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
    return process.returncode


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return
