"""Ending everything a worker has started, also what has left its process group or its parent.

Workers carry a mark in their environment, which whatever they start inherits. It is found in /proc,
however often a process has forked and whoever is its parent by now. A guard, which is this file run
as a program, does the same when the trainer is gone; so it imports nothing but Python's own.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

VARIABLE = "LONGHAUL_WORKER"
END_SECONDS = 10.0
LOOK_SECONDS = 0.02
PARENT_SECONDS = 1.0  # between two looks at who the guard's parent is


def new_mark() -> str:
    """Return the beginning of the marks of one trainer's workers."""
    return secrets.token_hex(8)


def marked(mark: str, variable: str = VARIABLE) -> list[int]:
    """Return the living processes whose mark begins with this text."""
    needle = f"{variable}={mark}".encode()
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    except OSError:  # a system without it
        return []
    return [int(pid) for pid in pids if needle in _environment(pid)]


def _environment(pid: str) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - the quickest way
            return file.read()
    except OSError:  # it is gone, or somebody else's
        return b""


def end_marked(mark: str, seconds: float = END_SECONDS) -> bool:
    """Kill all processes whose mark begins with this text; return whether none is left."""
    until = time.monotonic() + seconds
    while pids := [pid for pid in marked(mark) if pid != os.getpid()]:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > until:
            return False
        time.sleep(LOOK_SECONDS)
    return True


class Guard:
    """A small process that ends everything with a mark as soon as this process is gone."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._process: subprocess.Popen[bytes] | None = None
        # Without it, as on other systems than Linux, workers themselves still end with the trainer.
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(__file__)), mark, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def close(self) -> None:
        """Have everything ended now, and the guard with it."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        end_marked(self._mark)


def main(mark: str, parent: int) -> None:
    """Wait until the trainer closes its end of the input or is gone, then end what it left."""
    # What asks all processes of a job to end is for the trainer, which may need its workers.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # A copy of the trainer may hold the other end open; its parent tells all the same.
    while os.getppid() == parent:
        ready, _, _ = select.select([0], [], [], PARENT_SECONDS)
        if ready and not os.read(0, 1):
            break
    end_marked(mark)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
