"""Worker processes as whoever watches over a run sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

IDLE = "idle"


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What one worker process is doing."""

    worker: int
    pid: int
    stage: str
    env: int | None
    """The environment it is busy with, if any."""
    signs: int
    """Grows with every sign of life."""


class Workers(Protocol):
    """A group of worker processes; safe to ask from another thread."""

    def states(self) -> tuple[WorkerState, ...]:
        """Return what each of them is doing now."""

    def stack(self, worker: int) -> str:
        """Return where a worker is in its program, empty if it does not say."""
