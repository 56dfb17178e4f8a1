"""A command leaves no process behind, whatever an environment in it has started."""

from __future__ import annotations

import atexit
import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

PR_SET_CHILD_SUBREAPER = 36
ASK_SECONDS = 2.0
"""How long processes are given to end when they are asked to, before they are killed."""
PYTHONS_OWN = "multiprocessing.resource_tracker"
"""A helper of Python's that ends by itself and frees what others have left."""


def leave_nothing() -> None:
    """End all descendants when this process exits, daemons included.

    Orphans become children of this process, as far as the system offers that (Linux does).
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Registered first, so that it comes last: others may still need their helpers to finish.
    atexit.register(end_descendants, os.getpid())


def end_descendants(owner: int) -> None:
    """Ask everything this process has started to end, then kill it; a copy of it does nothing."""
    if os.getpid() != owner or not _has_children():
        return
    import psutil  # only now: most commands start nothing

    for _ in range(3):  # what was started meanwhile is found by the next look
        living = [one for one in psutil.Process().children(recursive=True) if _is_to_end(one)]
        if not living:
            return
        for process in living:
            with suppress(psutil.Error):
                process.terminate()
        _, stubborn = psutil.wait_procs(living, ASK_SECONDS)
        for process in stubborn:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(stubborn, ASK_SECONDS)


def _is_to_end(process: psutil.Process) -> bool:
    import psutil

    try:
        is_dead = process.status() == psutil.STATUS_ZOMBIE
        return not is_dead and PYTHONS_OWN not in " ".join(process.cmdline())
    except psutil.Error:
        return False


def _has_children() -> bool:
    """Whether there may be any; a cheap look where the system offers one."""
    try:
        tasks = list(Path("/proc/self/task").iterdir())
        return any((task / "children").read_text().strip() for task in tasks)
    except OSError:
        return True
