"""Calling a function in a process of its own, which may die or hang without harm to ours."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from longhaul.core.errors import LonghaulError
from longhaul.envs.guard import words_of
from longhaul.envs.processes.process import die_with

Enter = Callable[[str], None]
"""Called by the function with the name of the stage it is about to begin."""
Fate = Literal["returned", "raised", "died", "stuck"]

LONGEST_OUTPUT = 4000
STACK_SECONDS = 0.2  # for a stuck process to write its stack
FIRST_STAGE = "start"
JOIN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What became of a call."""

    fate: Fate
    returned: Any  # by the function, if it did return
    error: str
    stage: str  # the one that was entered last
    seconds: dict[str, float]  # spent in each stage
    output: str  # the end of what it wrote, with the stack of a process that died or was stuck


def call_isolated(
    function: Callable[[Any, Enter], Any], argument: Any, *, deadline_seconds: float
) -> Aftermath:
    """Return what became of `function(argument, enter)`; both must be picklable.

    Nothing is left of the process when this returns, and nothing it prints is shown.
    """
    context = multiprocessing.get_context("spawn")
    with TemporaryDirectory(prefix="longhaul-isolated-") as folder:
        output = Path(folder) / "output"
        ours, theirs = context.Pipe(duplex=False)
        call = _Call(function, argument, str(output), os.getpid())
        process = context.Process(target=_answer, args=(theirs, call))
        watch = _Watch()
        try:
            process.start()
            theirs.close()
            fate, returned = _wait(ours, watch, time.monotonic() + deadline_seconds)
            if fate == "stuck" and process.pid is not None:
                os.kill(process.pid, signal.SIGUSR1)
                process.join(STACK_SECONDS)
        finally:
            # Whatever the process still wants to do at its end must not hold us up.
            if process.pid is not None:
                process.kill()
                process.join(JOIN_SECONDS)
            ours.close()
        said = output.read_text(errors="replace")[-LONGEST_OUTPUT:] if output.exists() else ""
    error = ""
    match fate:
        case "raised":
            error = str(returned)
        case "died":
            error = f"its process {_ended(process.exitcode)}"
        case "stuck":
            error = f"no end after {deadline_seconds:g} s"
    returned = returned if fate == "returned" else None
    return Aftermath(fate, returned, error, watch.stage, watch.seconds(), said)


@dataclass(frozen=True, slots=True)
class _Call:
    function: Callable[[Any, Enter], Any]
    argument: Any
    output: str
    parent: int


class _Watch:
    """Keeps the time of each stage."""

    def __init__(self) -> None:
        self.stage = FIRST_STAGE
        self._began = time.monotonic()
        self._spent: dict[str, float] = {}

    def enter(self, stage: str) -> None:
        now = time.monotonic()
        self._spent[self.stage] = self._spent.get(self.stage, 0.0) + now - self._began
        self.stage, self._began = stage, now

    def seconds(self) -> dict[str, float]:
        self.enter(self.stage)
        return {stage: round(spent, 4) for stage, spent in self._spent.items()}


def _wait(ours: Connection, watch: _Watch, until: float) -> tuple[Fate, Any]:
    while ours.poll(max(0.0, until - time.monotonic())):
        try:
            said, content = ours.recv()
        except (EOFError, OSError):
            return "died", None
        if said != "enter":
            return said, content
        watch.enter(content)
    return "stuck", None


def _answer(line: Connection, call: _Call) -> None:
    """Run as the process: do what was asked and say what became of it."""
    die_with(call.parent)
    descriptor = os.open(call.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(descriptor, stream.fileno())
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    try:
        returned = call.function(call.argument, lambda stage: line.send(("enter", stage)))
        line.send(("returned", returned))
    except LonghaulError as error:
        line.send(("raised", str(error)))
    except Exception as error:  # noqa: BLE001 - whatever an env raises is what is looked for
        traceback.print_exc()
        sys.stderr.flush()
        line.send(("raised", words_of(error)))


def _ended(status: int | None) -> str:
    if status is None or status >= 0:
        return f"exited with code {status}"
    return f"was killed by {signal.Signals(-status).name}"
