"""A command in a process of its own that can be asked to stop and does not outlive this one."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

END_SECONDS = 120.0
"""How long a run may take to write its last checkpoint."""
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def longhaul_command(*arguments: str) -> list[str]:
    """Return this very installation's command with its arguments."""
    return [sys.executable, "-m", "longhaul", *arguments]


class Child:
    """A started command; its words go to a file.

    A Ctrl-C in the terminal does not reach it, so that its parent decides when it stops. If the
    parent dies, however suddenly, the system asks it to stop.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=partial(_stop_with, os.getpid()),
            )

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """Return the exit code as soon as there is one, None if the time is up before."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def ask_to_stop(self) -> None:
        """Send SIGTERM, after which a run leaves a checkpoint."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def end(self, seconds: float = END_SECONDS) -> int:
        """Return the exit code of a command that was asked to stop, by force if it takes long."""
        self.ask_to_stop()
        try:
            self.wait(seconds)
        finally:
            if self._process.poll() is None:
                os.killpg(self.pid, signal.SIGKILL)  # it leads a session of its own
            self._process.wait()
        return self._process.returncode


def _stop_with(parent: int) -> None:
    """Run in the new process: have the system send SIGTERM when the parent ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
