"""A command leaves no process behind, whatever an environment in it has started."""

from __future__ import annotations

import atexit
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from longhaul.envs.processes.descendants import marked, new_mark

if TYPE_CHECKING:
    import psutil

VARIABLE = "LONGHAUL_COMMAND"
"""Holds a mark that every program started by the command inherits."""
ASK_SECONDS = 2.0
"""How long processes are given to end when they are asked to, before they are killed."""
PYTHONS_OWN = "multiprocessing.resource_tracker"
"""A helper of Python's that ends by itself and frees what others have left."""


def leave_nothing() -> None:
    """End all descendants when this process exits, daemons included.

    The process does not adopt its orphans: those that end would stay as zombies for as long as it
    runs, which may be weeks.
    """
    own = f"{os.getpid()}-"
    if os.environ.get(VARIABLE, "").startswith(own):
        return
    os.environ[VARIABLE] = mark = own + new_mark()
    # Registered first, so that it comes last: others may still need their helpers to finish.
    atexit.register(end_descendants, os.getpid(), mark)


def end_descendants(owner: int, mark: str) -> None:
    """Ask everything this process has started to end, then kill it; a copy of it does nothing."""
    if os.getpid() != owner:
        return
    import psutil  # only now: most commands need it for nothing else

    for _ in range(3):  # what was started meanwhile is found by the next look
        if not (living := _living(mark)):
            return
        for process in living:
            with suppress(psutil.Error):
                process.terminate()
        _, stubborn = psutil.wait_procs(living, ASK_SECONDS)
        for process in stubborn:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(stubborn, ASK_SECONDS)


def _living(mark: str) -> list[psutil.Process]:
    """Return the processes with the mark, and the children of this one, which may be forks."""
    import psutil

    found = {process.pid: process for process in psutil.Process().children(recursive=True)}
    for pid in marked(mark, VARIABLE):
        with suppress(psutil.Error):
            found.setdefault(pid, psutil.Process(pid))
    found.pop(os.getpid(), None)
    return [process for process in found.values() if _is_to_end(process)]


def _is_to_end(process: psutil.Process) -> bool:
    import psutil

    try:
        is_dead = process.status() == psutil.STATUS_ZOMBIE
        return not is_dead and PYTHONS_OWN not in " ".join(process.cmdline())
    except psutil.Error:
        return False
