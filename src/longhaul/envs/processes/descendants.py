"""Ending everything a worker has started, also what has left its process group or its parent.

Workers have a mark in their environment variables, which their child processes inherit, regardless
of forks and new parents. A guard process, which starts with this file, does the same when the
trainer is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time

from longhaul.core.system import processes_with

VARIABLE = "LONGHAUL_WORKER"
END_SECONDS = 10.0
LOOK_SECONDS = 0.02
PROGRAM = (
    "import json, sys; settings = json.loads(sys.argv[1]); sys.path[:] = settings['path']; "
    "from longhaul.envs.processes.descendants import main; "
    "main(settings['mark'], settings['parent'])"
)
"""What the guard runs: without a search for site-packages it starts sooner."""
PARENT_SECONDS = 1.0  # between two looks at who the guard's parent is


def new_mark() -> str:
    """Return the beginning of the marks of one trainer's workers."""
    return secrets.token_hex(8)


def end_marked(mark: str, seconds: float = END_SECONDS) -> bool:
    """Kill all processes whose mark begins with this text; return whether none is left."""
    until = time.monotonic() + seconds
    while pids := [pid for pid in processes_with(VARIABLE, mark) if pid != os.getpid()]:
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
        settings = {"path": sys.path, "mark": mark, "parent": os.getpid()}
        # Without it workers themselves still end with the trainer.
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", PROGRAM, json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def close(self) -> None:
        """End all marked processes now, and the guard."""
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
    """Wait until the trainer closes the pipe or is gone, then end its processes."""
    # Signals to all processes of a job are for the trainer, which may still need its workers.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # A fork of the trainer may hold the other end open; the parent id is checked as well.
    while os.getppid() == parent:
        ready, _, _ = select.select([0], [], [], PARENT_SECONDS)
        if ready and not os.read(0, 1):
            break
    end_marked(mark)
