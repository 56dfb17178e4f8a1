"""The two clocks of a machine, as a value that can be passed in."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Clocks:
    """The wall clock, for people, and the monotonic clock, for durations; both in seconds."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic

    def stamp(self) -> str:
        """Return the wall clock as text, in UTC."""
        return datetime.fromtimestamp(self.wall(), UTC).isoformat(timespec="milliseconds")
