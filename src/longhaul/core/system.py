"""What systems differ in: Linux has one way, every other POSIX system takes the portable one.

Workers import this before anything else, so it needs only the standard library until psutil is
asked. Tests set `LONGHAUL_PORTABLE` in the environment to take the portable ways on Linux too.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from longhaul.core.errors import ConfigError

PORTABLE = "LONGHAUL_PORTABLE"
"""Environment variable of tests; processes inherit it."""
PARENT = "LONGHAUL_PARENT"
"""Environment variable of a command that ends with the process it names."""
PR_SET_PDEATHSIG = 1
PARENT_SECONDS = 0.5
"""Between two looks at the parent, where the system sends no signal when it ends."""
BLOCK = 2**20
CGROUP = Path("/sys/fs/cgroup")
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # as <malloc.h> numbers them
KEPT_BYTES = 2**30
LARGEST_KEPT_BLOCK = 2**25
"""The most glibc allows."""


def is_linux() -> bool:
    """Whether to take Linux's ways."""
    return sys.platform == "linux" and PORTABLE not in os.environ


def refuse_windows() -> None:
    """Raise on Windows."""
    if sys.platform == "win32":
        raise ConfigError("longhaul needs Linux or macOS; on Windows, install it inside WSL 2")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if is_linux() else os.cpu_count() or 1


def processor() -> str:
    """Return the processor's model."""
    if is_linux():
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def boot_id() -> str:
    """Return a name for the time since the last boot, where the system has one.

    Elsewhere only the start of a process shows that its pid was reused: the time of the last boot
    cannot serve as one, because it moves with the clock.
    """
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if is_linux() and path.exists() else "unknown"


def end_with(parent: int, number: int) -> None:
    """Have this process get a signal when its parent ends, however that ends.

    On Linux nothing can delay the signal, not even native code that holds the interpreter lock.
    """
    if is_linux():
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    else:
        threading.Thread(target=_follow, args=(parent, number), daemon=True).start()
    if os.getppid() != parent:
        os._exit(1)


def _follow(parent: int, number: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os.kill(os.getpid(), number)


def nameless_file(purpose: str) -> int:
    """Return a file that processes share by its descriptor and that is gone with the last of them.

    On Linux it is memory that the size of /dev/shm does not limit; elsewhere a temporary file.
    """
    if is_linux():
        return os.memfd_create(purpose, os.MFD_CLOEXEC)
    with tempfile.TemporaryFile(prefix=purpose) as file:
        return os.dup(file.fileno())


def allocate(descriptor: int, size: int) -> None:
    """Give an empty file its room now: room that is only reserved ends a process with SIGBUS."""
    if is_linux():
        os.posix_fallocate(descriptor, 0, size)
        return
    with open(descriptor, "wb", buffering=0, closefd=False) as file:
        left = size
        while left:
            left -= file.write(bytes(min(left, BLOCK)))


def sync_file(descriptor: int) -> None:
    """Force a file to disk. On macOS `fsync` leaves it in the cache of the drive."""
    import fcntl  # here, because Windows has none and is refused in words

    if (full := getattr(fcntl, "F_FULLFSYNC", None)) is not None:
        with suppress(OSError):  # network drives cannot
            fcntl.fcntl(descriptor, full)
            return
    os.fsync(descriptor)


def lock_file(descriptor: int) -> None:
    """Lock a file for this process until it is closed; raise `OSError` if another one has it."""
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def processes_with(variable: str, beginning: str) -> list[int]:
    """Return the living processes in whose environment a variable begins with this text."""
    if is_linux():
        needle = f"{variable}={beginning}".encode()
        pids = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - quicker
        return [int(pid) for pid in pids if needle in _environment(pid)]
    import psutil

    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # it is gone, or belongs to another user
            # Ended by a zero byte as on Linux, because a whole mark differs from a longer one.
            if f"{process.environ().get(variable, '')}\0".startswith(beginning):
                found.append(process.pid)
    return found


def _environment(pid: str) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - the quickest way
            return file.read()
    except OSError:  # it is gone, or belongs to another user
        return b""


def processes_left(cgroup: Path = CGROUP) -> int | None:
    """Return how many processes the control group may still start, None if it has no limit."""
    try:
        most = (cgroup / "pids.max").read_text().strip()
        used = (cgroup / "pids.current").read_text().strip()
    except OSError:
        return None
    return int(most) - int(used) if most.isdigit() and used.isdigit() else None


def keep_freed_memory() -> bool:
    """Let the allocator reuse freed memory; return whether the C library supports that.

    Networks over images free tens of megabytes after every minibatch. By default glibc returns
    them to the system, which zeroes every page again: a tenth of training time on pixels.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if is_linux() else None
    if mallopt is None:
        return False
    return bool(mallopt(TRIM_THRESHOLD, KEPT_BYTES) and mallopt(MMAP_THRESHOLD, LARGEST_KEPT_BLOCK))


def function_at(address: int) -> Callable[[int, int, int], int]:
    """Return the native function of three integers at an address; other threads run meanwhile."""
    number = ctypes.c_int64
    found: Callable[[int, int, int], int] = ctypes.CFUNCTYPE(number, number, number, number)(
        address
    )
    return found
