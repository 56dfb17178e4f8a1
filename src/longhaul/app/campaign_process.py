"""One slice of a campaign: a command that is run for a while and then asked to stop."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

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


class Workplaces:
    """Where pieces are carried out, as many at a time as there are jobs, each on its own cores.

    A run's threads look for work before they sleep, which costs others on the same core: two runs
    on a core each make twice the steps of two that share both.
    """

    def __init__(self, jobs: int, cores: Collection[int] | None = None) -> None:
        listed = sorted(os.sched_getaffinity(0) if cores is None else cores)
        self._free: SimpleQueue[tuple[int, ...]] = SimpleQueue()
        for job in range(jobs):
            # More jobs than cores: let the system decide.
            self._free.put(tuple(listed[job::jobs] if jobs <= len(listed) else listed))

    def carry_out(self, piece: Piece) -> int:
        """Run a command for its time on cores that are free; return its exit code."""
        cores = self._free.get()
        try:
            return carry_out(piece, cores)
        finally:
            self._free.put(cores)


def carry_out(piece: Piece, cores: Collection[int] | None = None) -> int:
    """Run the command for its time, less if that is enough; return its exit code.

    It is asked to stop by SIGTERM, so that a run leaves a checkpoint; whatever happens to this
    process, the command does not outlive it.
    """
    child = Child(piece.command, piece.log, cores)
    until = time.monotonic() + piece.seconds
    try:
        while child.poll() is None and time.monotonic() < until:
            if piece.is_enough():
                break
            child.wait(min(POLL_SECONDS, max(until - time.monotonic(), 0.0)))
    finally:
        code = child.end()
    return code
