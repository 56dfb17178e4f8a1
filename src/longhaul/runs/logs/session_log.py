"""Events of the processes of a run, with the time: sessions.jsonl."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Any, Protocol

from longhaul.core.errors import LonghaulError
from longhaul.runs.directory import RunDirectory, Status, write_status
from longhaul.runs.lock import Clocks
from longhaul.runs.logs.jsonl import LogWriter, encode_row


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
