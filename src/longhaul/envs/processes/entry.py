"""The first thing a worker process runs: it ties itself to its trainer before importing much."""

from __future__ import annotations

import ctypes
import faulthandler
import io
import json
import os
import signal
import socket
import struct
import sys
import time

PR_SET_PDEATHSIG = 1
STACK_SIGNALS = (signal.SIGUSR1,)
"""What asks a worker for its stack; blocked from its start until it is able to answer."""
HEADER = struct.Struct("<QIII")
MARK = 9
PROGRAM = (
    "import json, sys; settings = json.loads(sys.argv[1]); sys.path[:] = settings['path']; "
    "from longhaul.envs.processes.entry import main; main(settings)"
)
"""What the interpreter of a worker is given to run."""


def die_with(parent: int) -> None:
    """Have the system kill this process when the trainer ends, however it ends.

    The signal cannot be held up, not even by native code that keeps the interpreter's lock.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def leave_signals_to_the_trainer() -> None:
    """Take no notice of Ctrl-C, nor of a job system that asks all processes of a job to end.

    The trainer stops after a checkpoint and closes its workers itself. A handler that does nothing
    rather than an ignored signal: programs an env starts would inherit the latter.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: None)


def print_line_by_line() -> None:
    """Have what an env prints be in the log when its worker is killed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)


def main(settings: dict[str, object]) -> None:
    """Run as the worker that `settings` describe until the trainer closes the socket."""
    parent, generation, worker, end, memory, crash = (
        int(str(settings[name]))
        for name in ("parent", "generation", "worker", "socket", "memory", "crash")
    )
    die_with(parent)
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
    """Tell the trainer that a stage was entered or left."""
    facts = {
        "stage": stage,
        "worker": worker,
        "pid": os.getpid(),
        "env": env,
        "seconds": time.monotonic(),
    }
    payload = json.dumps(facts).encode()
    line.sendall(HEADER.pack(0, generation, MARK, len(payload)) + payload)
