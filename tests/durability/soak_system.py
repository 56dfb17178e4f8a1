"""What a soak looks at and does outside its trainer: files, processes, names in memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from longhaul.runs.directory import list_run_directories

SHARED = Path("/dev/shm")


def only_run(root: Path, *, at_least: int = 1) -> Any:
    """Return the run below a folder; None if there may be none and is none."""
    found = [run for task in root.glob("gym-*") for run in list_run_directories(task)]
    if not at_least <= len(found) <= 1:
        raise RuntimeError(f"{root} holds {len(found)} runs")
    return found[0] if found else None


def fill(ballast: Path) -> None:
    """Leave no byte on the disk."""
    with ballast.open("ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            with suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass


def files_below(root: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of the last change of every file."""
    found = {}
    for path in root.glob("gym-*/**/*"):
        with suppress(OSError):
            status = path.lstat()
            found[str(path)] = status.st_size, status.st_mtime_ns
    return found


def names_in_memory() -> set[str]:
    """Return the names in /dev/shm, whichever process made them."""
    return {path.name for path in SHARED.glob("*")}


def mapped_names(pids: Sequence[int]) -> list[str]:
    """Return what these processes have mapped that would stay in /dev/shm after them."""
    found = set[str]()
    for pid in pids:
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
            found |= {line.split()[-1] for line in lines if f"{SHARED}/" in line}
    return sorted(found)


def send(processes: Sequence[psutil.Process], number: int) -> None:
    """Send a signal to those that still live."""
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.Error:
            continue


def words(process: psutil.Process) -> list[str]:
    """Return a process's command line; none if it is gone."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def is_alive(process: psutil.Process) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def use(process: psutil.Process) -> dict[str, int]:
    """Return memory, descriptors and threads of a process."""
    with process.oneshot():
        return {
            "rss": process.memory_info().rss,
            "descriptors": process.num_fds(),
            "threads": process.num_threads(),
        }
