"""One trainer per run directory."""

from __future__ import annotations

import errno
import json
import os
import platform
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import msgspec
import psutil

from longhaul.core.errors import LockedError, ResourceError
from longhaul.core.system import boot_id, lock_file
from longhaul.runs.durable import storage_errors, write_all

DISTRIBUTION = "longhaul-rl"
"""The name pip knows this package by; `longhaul` belongs to another project there."""
_PACKAGES = {name: name for name in ("gymnasium", "longhaul", "numpy", "safetensors", "torch")}
_PACKAGES["longhaul"] = DISTRIBUTION
_SLACK_SECONDS = 10.0  # between the clocks that a start time and a lock are taken from


def installed_versions() -> dict[str, str]:
    """Return the versions that a bit-exact repetition depends on; an absent package is left out."""
    found = {"python": platform.python_version()}
    for package, distribution in _PACKAGES.items():
        try:
            found[package] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return found


def host_facts() -> dict[str, str]:
    """Return facts about this machine."""
    return {
        "name": socket.gethostname(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "processors": str(os.cpu_count() or 1),
        "memory_bytes": str(psutil.virtual_memory().total),
    }


@dataclass(frozen=True, slots=True)
class Clocks:
    """The wall clock, for people, and the monotonic clock, for durations; both in seconds."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic

    def stamp(self) -> str:
        """Return the wall clock as text, in UTC."""
        return datetime.fromtimestamp(self.wall(), UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds a run directory."""

    pid: int
    host: str
    boot_id: str
    since: str

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs; one on another machine counts as running.

        A zombie does not run, and a process younger than the lock has reused the pid.
        """
        if self.host != socket.gethostname():
            return True
        if self.boot_id != boot_id():
            return False
        try:
            process = psutil.Process(self.pid)
            since = datetime.fromisoformat(self.since).timestamp()
            is_younger = process.create_time() > since + _SLACK_SECONDS
            return process.status() != psutil.STATUS_ZOMBIE and not is_younger
        except psutil.NoSuchProcess:
            return False
        except (psutil.AccessDenied, ValueError):
            return True


def read_holder(path: Path) -> Holder | None:
    """Return the last holder of the lock; None if there was none or the file is unreadable.

    Readers look at the text and never take the lock: even for a moment, that would refuse
    a starting trainer.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Holder)
    except (OSError, msgspec.DecodeError):
        return None


def is_locked(path: Path) -> bool:
    """Whether a trainer holds a run; for a process that is about to train it.

    It takes the lock for a moment, which would refuse a trainer that starts at that moment.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        lock_file(descriptor)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


class RunLock:
    """An exclusive hold on a run directory, until closed or until the process dies.

    The kernel releases it when the process dies. The file stays: deleting it would let two
    processes lock two files of the same name.
    """

    def __init__(self, path: Path, clocks: Clocks) -> None:
        self.path = path
        with storage_errors(path):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(path, flags, 0o644)
        try:
            self._lock()
            holder = Holder(os.getpid(), socket.gethostname(), boot_id(), clocks.stamp())
            with storage_errors(path):
                os.ftruncate(self._descriptor, 0)
                write_all(self._descriptor, json.dumps(asdict(holder)).encode())
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        try:
            lock_file(self._descriptor)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise ResourceError(
                    f"cannot lock {self.path}: {error.strerror}; keep runs on a file system "
                    "that supports flock"
                ) from error
            holder = read_holder(self.path)
            who = (
                "another process"
                if holder is None
                else f"process {holder.pid} on {holder.host} since {holder.since}"
            )
            raise LockedError(
                f"{self.path.parent} is in use by {who}; stop it or wait for it to end, or start "
                "a run with another name"
            ) from error

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor >= 0

    def close(self) -> None:
        """Release the lock; does nothing the second time."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> RunLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
