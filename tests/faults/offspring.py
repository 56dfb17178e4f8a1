"""An environment that starts processes of every kind and leaves them running."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym

from tests.app.toys import Walk

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]


class Parent(Walk):
    """Starts a child, one in a session of its own, a lingering fork and a daemon.

    Each of them is a file in the folder, named by its process.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = Path(folder)
        self.is_parent = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if not self.is_parent:
            self.is_parent = True
            self.write(subprocess.Popen(SLEEP).pid)
            self.write(subprocess.Popen(SLEEP, start_new_session=True).pid)
            self.linger()
            self.daemonize()
            (self.folder / "complete").touch()
        return super().reset(seed=seed, options=options)

    def write(self, pid: int) -> None:
        (self.folder / f"pid-{pid}").touch()

    def linger(self) -> None:
        if pid := os.fork():
            self.write(pid)
            return
        time.sleep(600)
        os._exit(0)

    def daemonize(self) -> None:
        """Fork twice with a session in between, as daemons do."""
        if (pid := os.fork()) == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            self.write(os.getpid())
            os.execv(SLEEP[0], SLEEP)
        os.waitpid(pid, 0)


def started(folder: Path) -> list[int]:
    """Return the processes that were started so far."""
    return [int(path.name.removeprefix("pid-")) for path in folder.glob("pid-*")]


gym.register("Parent-v0", f"{__name__}:Parent")
TASK = f"gym:{__name__}:Parent-v0"
