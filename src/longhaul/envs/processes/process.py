"""Starting and ending one worker process."""

from __future__ import annotations

import errno
import faulthandler
import io
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from longhaul.core.errors import EnvError, ResourceError
from longhaul.core.system import end_with, nameless_file
from longhaul.envs.guard import open_log
from longhaul.envs.processes.descendants import VARIABLE, Guard, end_marked
from longhaul.envs.processes.messages import Channel

STACK_SIGNALS = (signal.SIGUSR1,)
"""The signal that requests a worker's stack; blocked until the worker can answer."""
HEADER = struct.Struct("<QIII")
MARK = 9
PROGRAM = (
    "import json, sys; settings = json.loads(sys.argv[1]); sys.path[:] = settings['path']; "
    "from longhaul.envs.processes.process import main; main(settings)"
)
"""What the interpreter of a worker is given to run."""


def leave_signals_to_the_trainer() -> None:
    """Ignore Ctrl-C and the SIGTERM that a job system sends to all processes.

    The trainer stops after a checkpoint and closes its workers itself. A handler that does nothing
    rather than an ignored signal: programs an env starts would inherit the latter.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: None)


def print_line_by_line() -> None:
    """Flush every printed line, so the log is complete when the worker is killed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)


def main(settings: dict[str, object]) -> None:
    """Run as the worker that `settings` describe until the trainer closes the socket."""
    parent, generation, worker, end, memory, crash = (
        int(str(settings[name]))
        for name in ("parent", "generation", "worker", "socket", "memory", "crash")
    )
    end_with(parent, signal.SIGKILL)
    leave_signals_to_the_trainer()
    for descriptor in (end, memory, crash):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - it has no name
    faulthandler.enable(crash)
    for number in STACK_SIGNALS:
        faulthandler.register(number, crash, all_threads=True)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STACK_SIGNALS)
    print_line_by_line()
    line = socket.socket(fileno=end)
    line.settimeout(None)
    mark(line, generation, worker, "import_start")
    del sys.argv[1:]
    from longhaul.envs.processes.worker import serve  # after the mark: it imports NumPy

    serve(line, memory, generation)


def mark(
    line: socket.socket, generation: int, worker: int, stage: str, env: int | None = None
) -> None:
    """Notify the trainer that a stage was entered or left."""
    facts = {
        "stage": stage,
        "worker": worker,
        "pid": os.getpid(),
        "env": env,
        "seconds": time.monotonic(),
    }
    payload = json.dumps(facts).encode()
    line.sendall(HEADER.pack(0, generation, MARK, len(payload)) + payload)


REAP_SECONDS = 10.0
LONGEST_CRASH_NOTE = 8000
STACK_SECONDS = 1.0  # for a worker to write its stack; on a busy machine it waits for its turn
STACK_LOOK_SECONDS = 0.01
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(slots=True)
class WorkerProcess:
    """One process of a worker."""

    worker: int
    channel: Channel
    popen: subprocess.Popen[bytes]
    crash: BinaryIO  # where the interpreter writes its stack when it is killed by its own fault
    mark: str = ""  # carried by everything it starts
    asking: threading.Lock = field(default_factory=threading.Lock)
    """Held while waiting for the stack: the watchdog's thread may request it as well."""

    @property
    def pid(self) -> int:
        """The process's number."""
        return self.popen.pid

    def kill(self) -> str:
        """Kill the process and its group, wait until it is gone, and return how it ended.

        A process that still exists could write into the shared memory, so it must be gone before
        it is replaced.
        """
        # Until it is reaped the pid still belongs to it, so no other process gets the signal.
        if self.popen.poll() is None:
            _signal_group(self.pid, signal.SIGKILL)
        try:
            status = self.popen.wait(REAP_SECONDS)
        except subprocess.TimeoutExpired:
            raise EnvError(
                f"worker {self.worker} (process {self.pid}) cannot be killed: it hangs in a "
                "system call, for example on a dead network drive or device"
            ) from None
        self.channel.close()
        return _ended(status)

    def end_leftovers(self) -> None:
        """Kill all child processes of a worker that is gone, daemons included."""
        if self.mark:
            end_marked(f"{self.mark}\0")

    def leave_note(self) -> None:
        """Request the stack of a hung worker and wait for it; a stopped worker gives none."""
        with self.asking:
            if self._ask():
                self._written()

    def _ask(self) -> bool:
        lives = self.popen.poll() is None
        if lives:
            os.kill(self.pid, signal.SIGUSR1)
        return lives

    def stack(self) -> str:
        """Return the stack of a running worker, empty if it does not answer in time.

        The file is cleared afterwards, so the note of a crash holds only the crash.
        """
        try:
            with self.asking:
                self._ask()
                note = self._written()
                descriptor = self.crash.fileno()
                # Both ends share one position in the note.
                os.ftruncate(descriptor, 0)
                os.lseek(descriptor, 0, os.SEEK_SET)
        except (OSError, ValueError):  # it is being replaced at this moment
            return ""
        return note

    def _written(self) -> str:
        """Wait until a stack was written completely, but only for a short time."""
        size, until = 0, time.monotonic() + STACK_SECONDS
        while time.monotonic() < until:
            time.sleep(STACK_LOOK_SECONDS)
            grown = os.fstat(self.crash.fileno()).st_size
            if grown and grown == size:
                break
            size = grown
        return os.pread(self.crash.fileno(), LONGEST_CRASH_NOTE, 0).decode(errors="replace")

    def crash_note(self) -> str:
        """Return what the interpreter wrote on a crash or on request, and close the file."""
        try:
            size = os.fstat(self.crash.fileno()).st_size
            note = os.pread(self.crash.fileno(), LONGEST_CRASH_NOTE, 0) if size else b""
        finally:
            self.crash.close()
        return note.decode(errors="replace")


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def _ended(status: int) -> str:
    if status >= 0:
        return f"exited with code {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was killed by {name}"


class StartWorker(Protocol):
    """Starts the process of a worker."""

    def __call__(
        self, worker: int, generation: int, memory: int, *, output: Path | None, mark: str
    ) -> WorkerProcess:
        """Return the process."""


def start_worker(
    worker: int, generation: int, memory: int, *, output: Path | None = None, mark: str = ""
) -> WorkerProcess:
    """Start a separate interpreter for a worker, which prints into a log of a folder.

    Its child processes inherit `mark`, by which they are found when the worker is gone.

    Call it in a thread that lives as long as the worker may: the system takes the end of the
    thread that started a process for the end of its parent.
    """
    try:
        ours, theirs = socket.socketpair()
        descriptor = nameless_file("longhaul-crash")
    except OSError as error:
        raise _no_more(error) from error
    crash = os.fdopen(descriptor, "w+b", buffering=0)
    settings = {
        "path": sys.path,
        "parent": os.getpid(),
        "generation": generation,
        "worker": worker,
        "socket": theirs.fileno(),
        "memory": memory,
        "crash": descriptor,
    }
    # A booting worker cannot write its stack yet: the signal stays blocked until it can, instead
    # of ending the process.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STACK_SIGNALS)
    log = None if output is None else open_log(output / f"worker-{worker}.log")
    try:
        popen = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, json.dumps(settings)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(theirs.fileno(), memory, descriptor),
            process_group=0,
            env={**_surroundings(), VARIABLE: mark},
        )
    except OSError as error:
        ours.close()
        crash.close()
        raise _no_more(error) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        if log is not None:
            os.close(log)
    return WorkerProcess(worker, Channel(ours, generation), popen, crash, mark)


def ready(descriptors: Collection[int], seconds: float) -> list[int]:
    """Return those of these sockets that have something to read, after at most so many seconds."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(seconds * 1000)]


@dataclass(frozen=True, slots=True)
class WorkerSystem:
    """What a fleet needs of the operating system; a simulation gives another one."""

    start: StartWorker = start_worker
    guard: Callable[[str], Guard] = Guard
    ready: Callable[[Collection[int], float], list[int]] = ready
    monotonic: Callable[[], float] = time.monotonic


WORKER_SYSTEM = WorkerSystem()


def _surroundings() -> dict[str, str]:
    """Return the environment variables of a worker."""
    # Workers already use every core. A fixed hash seed gives sets of text the same order in every
    # worker, so an env that depends on it can be replayed in another process.
    defaults = {**dict.fromkeys(_ONE_THREAD, "1"), "PYTHONHASHSEED": "0"}
    return {**defaults, **os.environ}


def _no_more(error: OSError) -> ResourceError | EnvError:
    match error.errno:
        case errno.EMFILE | errno.ENFILE:
            return ResourceError(
                "no file descriptors are left for the worker processes; raise the limit "
                "(`ulimit -n 4096`) or set env.processes.workers lower"
            )
        case errno.EAGAIN | errno.ENOMEM:
            return ResourceError(
                f"the system cannot start more processes ({error.strerror}); raise the limit "
                "(`ulimit -u`, or the container's pids limit) or set env.processes.workers lower"
            )
        case _:
            return EnvError(f"cannot start a worker process: {error}")
