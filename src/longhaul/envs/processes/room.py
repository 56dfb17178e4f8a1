"""Whether the machine has room for the workers, told before any of them is started."""

from __future__ import annotations

import resource
from pathlib import Path

from longhaul.core.errors import ResourceError

DESCRIPTORS_PER_WORKER = 4
DESCRIPTORS_BESIDE = 64
PROCESSES_BESIDE = 8
_CGROUP = Path("/sys/fs/cgroup")


def check_room(workers: int, cgroup: Path = _CGROUP) -> None:
    """Raise if file descriptors or processes would run out; raise a soft limit where allowed."""
    needed = workers * DESCRIPTORS_PER_WORKER + DESCRIPTORS_BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise ResourceError(
                f"{workers} worker processes need about {needed} file descriptors, and the limit "
                f"is {hard}; raise it (`ulimit -n {needed}`) or set env.processes.workers lower"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    left = processes_left(cgroup)
    if left is not None and left < workers + PROCESSES_BESIDE:
        raise ResourceError(
            f"{workers} worker processes are more than the {left} the container may still start; "
            "raise its pids limit or set env.processes.workers lower"
        )


def processes_left(cgroup: Path = _CGROUP) -> int | None:
    """Return how many processes the control group may still start, None if it has no limit."""
    try:
        most = (cgroup / "pids.max").read_text().strip()
        used = (cgroup / "pids.current").read_text().strip()
    except OSError:
        return None
    return int(most) - int(used) if most.isdigit() and used.isdigit() else None
