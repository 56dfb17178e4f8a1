"""Calling a function in an isolated process, which may crash or hang without harm."""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import IO, Any, TypeVar

from longhaul.core.errors import EnvError, LonghaulError
from longhaul.envs.guard import trace_of, with_trace, words_of
from longhaul.envs.processes.descendants import VARIABLE, end_marked, new_mark
from longhaul.envs.processes.process import die_with, leave_signals_to_the_trainer

T = TypeVar("T")
# Exceptions that the function may raise without ending the process.
FAILURES = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit)
PROGRAM = (
    "import json, sys; settings = json.loads(sys.argv[1]); sys.path[:] = settings['path']; "
    "from longhaul.envs.processes.isolated import main; main(settings)"
)
LONGEST_LAST_WORDS = 2000
LENGTH = struct.Struct("<Q")


def call_isolated(function: Callable[[], T], *, seconds: float, attempts: int) -> T:
    """Return the function's result from another process; raise if every attempt crashes.

    An exception is raised here at once, because it would occur again. A crash is retried.
    """
    problem = ""
    for _ in range(attempts):
        answer, problem = _attempt(pickle.dumps(function), seconds)
        if not problem:
            returned, raised = pickle.loads(answer)
            if raised is not None:
                raise raised
            result: T = returned
            return result
    tries = "once" if attempts == 1 else f"{attempts} times"
    raise EnvError(f"failed {tries} in an isolated process: {problem}")


def _attempt(function: bytes, seconds: float) -> tuple[bytes, str]:
    """Return the answer of one process, or how it ended."""
    # Output goes to a file: a full pipe that is read only at the end would block the process.
    with tempfile.TemporaryFile(buffering=0) as output:
        return _ask(function, seconds, output)


def _ask(function: bytes, seconds: float, output: IO[bytes]) -> tuple[bytes, str]:
    mark = new_mark()
    ours, theirs = os.pipe()
    settings = {"path": sys.path, "parent": os.getpid(), "pipe": theirs}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        pass_fds=(theirs,),
        process_group=0,
        env={**os.environ, VARIABLE: mark},
    )
    os.close(theirs)
    assert process.stdin is not None
    try:
        with process.stdin as line:
            line.write(function)
        answer = _read(ours, seconds)
        if answer is None:
            # Not retried: it would take as long again.
            raise EnvError(f"an isolated process gave no answer within {seconds:g} s")
        if answer:
            return answer, ""
        status = process.wait(seconds)
        how = f"exited with code {status}" if status >= 0 else f"died of signal {-status}"
        words = _end_of(output)
        return b"", f"it {how}" + (f"; its last output: {words}" if words else "")
    except BrokenPipeError:
        return b"", "it died before the call"
    finally:
        _end(process)
        end_marked(mark)
        os.close(ours)


def _end_of(output: IO[bytes]) -> str:
    size = os.fstat(output.fileno()).st_size
    last = os.pread(output.fileno(), LONGEST_LAST_WORDS, max(size - LONGEST_LAST_WORDS, 0))
    return last.decode(errors="replace").strip()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(pipe: int, seconds: float) -> bytes | None:
    """Return the answer, nothing if the pipe is closed before, None if that takes too long.

    Its length goes before it: child processes of the function may hold the pipe open.
    """
    deadline = time.monotonic() + seconds
    read = b""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while (left := deadline - time.monotonic()) > 0:
        if not poll.poll(left * 1000):
            continue
        part = os.read(pipe, 2**20)
        if not part:
            return b""
        read += part
        if len(read) >= LENGTH.size and len(read) >= LENGTH.size + LENGTH.unpack_from(read)[0]:
            return read[LENGTH.size :]
    return None


def main(settings: dict[str, Any]) -> None:
    """Read a function, call it, and write its result."""
    die_with(settings["parent"])
    leave_signals_to_the_trainer()
    pipe = int(settings["pipe"])
    os.set_inheritable(pipe, False)  # noqa: FBT003 - it has no name
    del sys.argv[1:]
    returned, raised = None, None
    try:
        function = pickle.loads(sys.stdin.buffer.read())
        returned = function()
    except LonghaulError as error:
        raised = type(error)(str(error))
        raised.add_note(trace_of(error))
    except FAILURES as error:
        raised = with_trace(words_of(error), trace_of(error))
    with os.fdopen(pipe, "wb") as line:
        answer = pickle.dumps((returned, raised))
        line.write(LENGTH.pack(len(answer)) + answer)
