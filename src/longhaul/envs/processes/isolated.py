"""Calling a function in a separate process, which may die or hang without harm."""

from __future__ import annotations

import faulthandler
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
from dataclasses import dataclass
from typing import IO, Any, Literal, TypeVar

from longhaul.core.errors import EnvError, LonghaulError
from longhaul.core.system import end_with
from longhaul.envs.guard import trace_of, with_trace, words_of
from longhaul.envs.processes.descendants import VARIABLE, end_marked, new_mark
from longhaul.envs.processes.process import leave_signals_to_the_trainer

T = TypeVar("T")
Enter = Callable[[str], None]
"""Called by the function with the name of the stage it is about to begin."""
Fate = Literal["returned", "raised", "died", "stuck"]

# What may be raised without ending the process, which is not the function's to end.
FAILURES = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit)
PROGRAM = (
    "import json, sys; settings = json.loads(sys.argv[1]); sys.path[:] = settings['path']; "
    "from longhaul.envs.processes.isolated import main; main(settings)"
)
FIRST_STAGE = "start"
LONGEST_OUTPUT = 4000
LONGEST_LAST_OUTPUT = 2000
STACK_SECONDS = 0.2  # for a stuck process to write its stack
LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What became of a call."""

    fate: Fate
    returned: Any  # by the function, if it did return
    raised: LonghaulError | None
    error: str
    stage: str  # the one that was entered last
    seconds: dict[str, float]  # spent in each stage
    output: str  # the end of what it wrote, with the stack of a process that died or was stuck


def call_with_retries(function: Callable[[], T], *, seconds: float, attempts: int) -> T:
    """Return what the function returns elsewhere; raise if its process dies at every attempt.

    An exception is raised here at once, because the next attempt would raise it too.
    """
    problem = ""
    for _ in range(attempts):
        aftermath = call_isolated(_WithoutStages(function), seconds=seconds, stack=False)
        if aftermath.raised is not None:
            raise aftermath.raised
        if aftermath.fate == "stuck":
            # Not tried again: it would take as long.
            raise EnvError(f"an isolated process gave no answer within {seconds:g} s")
        if aftermath.fate == "returned":
            result: T = aftermath.returned
            return result
        said = aftermath.output[-LONGEST_LAST_OUTPUT:].strip()
        problem = aftermath.error + (f"; its last output: {said}" if said else "")
    times = "once" if attempts == 1 else f"{attempts} times"
    raise EnvError(f"the environment crashed {times} in an isolated process: {problem}")


@dataclass(frozen=True, slots=True)
class _WithoutStages:
    function: Callable[[], Any]

    def __call__(self, enter: Enter) -> Any:
        return self.function()


def call_isolated(
    function: Callable[[Enter], Any], *, seconds: float, stack: bool = True
) -> Aftermath:
    """Return what became of `function(enter)`, which must be picklable, as what it returns.

    Nothing is left of the process when this returns, and nothing it prints is shown. With `stack`,
    a process that dies or is stuck writes its stack to its output.
    """
    # A file takes all it prints; a pipe that is read at the end would block it when it is full.
    with tempfile.TemporaryFile(buffering=0) as output:
        return _ask(pickle.dumps(function), seconds, output, stack=stack)


def _ask(function: bytes, seconds: float, output: IO[bytes], *, stack: bool) -> Aftermath:
    mark = new_mark()
    ours, theirs = os.pipe()
    settings = {"path": sys.path, "parent": os.getpid(), "pipe": theirs, "stack": stack}
    answers = _Answers(ours, time.monotonic() + seconds)
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
        try:
            with process.stdin as line:
                line.write(function)
        except BrokenPipeError:
            pass  # it died, which the missing answer shows
        fate, content = answers.wait()
        if fate == "died":
            process.wait(seconds)
        elif fate == "stuck" and stack:
            process.send_signal(signal.SIGUSR1)
            time.sleep(STACK_SECONDS)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        end_marked(mark)
        os.close(ours)
    error = {
        "returned": "",
        "raised": str(content),
        "died": f"its process {_ended(process.returncode)}",
        "stuck": f"no end after {seconds:g} s",
    }[fate]
    return Aftermath(
        fate,
        content if fate == "returned" else None,
        content if fate == "raised" else None,
        error,
        answers.stage,
        answers.seconds(),
        _end_of(output),
    )


def _end_of(output: IO[bytes]) -> str:
    size = os.fstat(output.fileno()).st_size
    last = os.pread(output.fileno(), LONGEST_OUTPUT, max(size - LONGEST_OUTPUT, 0))
    return last.decode(errors="replace")


def _ended(status: int) -> str:
    if status >= 0:
        return f"exited with code {status}"
    return f"was killed by {signal.Signals(-status).name}"


class _Answers:
    """Reads what the process reports, and keeps the time of each stage."""

    def __init__(self, pipe: int, deadline: float) -> None:
        self._pipe = pipe
        self._deadline = deadline
        self._read = b""
        self._began = time.monotonic()
        self._spent: dict[str, float] = {}
        self.stage = FIRST_STAGE

    def wait(self) -> tuple[Fate, Any]:
        """Return how the call ended and with what; the pipe is closed early if it died."""
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        while (left := self._deadline - time.monotonic()) > 0:
            if not poll.poll(left * 1000):
                continue
            part = os.read(self._pipe, 2**20)
            if not part:
                return "died", None
            self._read += part
            while (message := self._message()) is not None:
                said, content = message
                if said != "enter":
                    return said, content
                self._enter(content)
        return "stuck", None

    def _message(self) -> Any:
        """Return the next whole message, None if there is none yet.

        Its length goes before it: what the function has started may hold the pipe open.
        """
        if len(self._read) < LENGTH.size:
            return None
        end = LENGTH.size + LENGTH.unpack_from(self._read)[0]
        if len(self._read) < end:
            return None
        message, self._read = self._read[LENGTH.size : end], self._read[end:]
        return pickle.loads(message)

    def _enter(self, stage: str) -> None:
        now = time.monotonic()
        self._spent[self.stage] = self._spent.get(self.stage, 0.0) + now - self._began
        self.stage, self._began = stage, now

    def seconds(self) -> dict[str, float]:
        """Return the time spent in each stage."""
        self._enter(self.stage)
        return {stage: round(spent, 4) for stage, spent in self._spent.items()}


def main(settings: dict[str, Any]) -> None:
    """Run as the process: read a function, call it, and report its stages and its end."""
    end_with(settings["parent"], signal.SIGKILL)
    leave_signals_to_the_trainer()
    if settings["stack"]:
        faulthandler.enable()
        faulthandler.register(signal.SIGUSR1)
    pipe = int(settings["pipe"])
    os.set_inheritable(pipe, False)  # noqa: FBT003 - it has no name
    del sys.argv[1:]
    with os.fdopen(pipe, "wb") as line:

        def report(said: str, content: object) -> None:
            message = pickle.dumps((said, content))
            line.write(LENGTH.pack(len(message)) + message)
            line.flush()

        try:
            function = pickle.loads(sys.stdin.buffer.read())
            returned = function(lambda stage: report("enter", stage))
            report("returned", returned)
        except LonghaulError as error:
            raised = type(error)(str(error))
            raised.add_note(trace_of(error))
            report("raised", raised)
        except FAILURES as error:
            trace = trace_of(error)
            sys.stderr.write(trace)
            sys.stderr.flush()
            report("raised", with_trace(words_of(error), trace))
