"""Measurements in other processes: peers in their own interpreters, and runs that take turns.

What a machine gives changes from second to second by more than most differences worth measuring.
Runs whose iterations alternate meet the same machine, and what the threads of a run do in the turns
of the others still counts as the processor time of its process.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from longhaul.app.bench.training import IterationTimer, measure_run
from longhaul.app.build.config import RunConfig
from longhaul.core.control import Progress
from longhaul.core.errors import ConfigError, EnvError

LIST_MISSING = """
import sys
from importlib.util import find_spec
print(", ".join(name for name in sys.argv[1:] if find_spec(name) is None))
"""


class CpuStopwatch(IterationTimer):
    """Also measures CPU time, including that of threads."""

    def __init__(self) -> None:
        super().__init__()
        self._cpu: list[float] = []

    def __call__(self, progress: Progress) -> str | None:
        """Record both times."""
        self._cpu.append(time.process_time())
        return super().__call__(progress)

    @property
    def rates(self) -> tuple[float, float]:
        """Steps per second and per CPU-second since the first iteration ended."""
        wall = self.steps_per_second
        moved = self.marks[-1][1] - self.marks[1][1]
        return wall, moved / (self._cpu[-1] - self._cpu[1])


def isolated(python: Path, script: str) -> list[str]:
    """Return the command that runs a file of longhaul by a Python that need not have longhaul."""
    # Isolated: beside the script lie modules with names of the standard library.
    return [str(python), "-I", "-W", "ignore", script]


def missing(python: Path, modules: Sequence[str]) -> str:
    """Return why this interpreter cannot run what needs these modules; empty if it can."""
    if not python.exists():
        return f"there is no {python}"
    command = [str(python), "-I", "-c", LIST_MISSING, *modules]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"{python} cannot be run"
    return f"{python} has no {done.stdout.strip()}" if done.stdout.strip() else ""


def run_peer_script(name: str, command: Sequence[str], *, limit_seconds: float) -> dict[str, Any]:
    """Return the JSON object a peer's script writes as its last line."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"peer {name} did not end within {error.timeout:.0f} s") from error
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ConfigError(f"peer {name} cannot be measured with {command[0]}: {last}")
    return read_result(name, lines[-1])


def read_result(name: str, line: str) -> dict[str, Any]:
    """Return a peer's last line as an object, or say what it wrote instead."""
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConfigError(f"peer {name} wrote {line[:80]!r} where its speeds were expected")
    return found


TOKEN = b"your turn"
Pipe = tuple[Connection, Connection]  # where to receive, where to send


@dataclass(frozen=True, slots=True)
class Turn:
    """What one iteration took."""

    seconds: float
    cpu_seconds: float  # of the whole process, until its next turn


class _Holder:
    """Lets a run go on while it has the token; asked at the start of every iteration."""

    def __init__(self, before: Connection, after: Connection) -> None:
        self._before = before
        self._after = after
        self._begun: list[tuple[float, float]] = []
        self._ended: list[float] = []

    def __call__(self, progress: Progress) -> str | None:
        """End the present turn and wait for the next one; never a reason to stop."""
        if self._begun:
            self._ended.append(time.perf_counter())
            self.pass_on()
        self._before.recv_bytes()
        self._begun.append((time.perf_counter(), time.process_time()))
        return None

    def pass_on(self) -> None:
        """Let the next run have its turn."""
        with suppress(BrokenPipeError):  # the next run is through
            self._after.send_bytes(TOKEN)

    @property
    def turns(self) -> list[tuple[float, float]]:
        """Seconds and processor time of the turns between the first and the last."""
        begun = self._begun
        return [
            (ended - began, later - cpu)
            for ended, (began, cpu), (_, later) in zip(
                self._ended[1:], begun[1:-1], begun[2:], strict=True
            )
        ]


def take_turns(
    runs: Mapping[str, RunConfig], prepare: Callable[[], None]
) -> dict[str, tuple[Turn, ...]]:
    """Train all runs, each in a separate process, one iteration in turn; return their turns.

    The first turn of each does not count, nor does the last one. All must have as many iterations.
    Every process calls `prepare` first.
    """
    context = multiprocessing.get_context("spawn")
    count = len(runs)
    ring = [context.Pipe(duplex=False) for _ in runs]
    answers = [context.Pipe(duplex=False) for _ in runs]
    processes = [
        context.Process(
            target=_train,
            args=(prepare, config, ring[index][0], ring[(index + 1) % count][1], answers[index][1]),
        )
        for index, config in enumerate(runs.values())
    ]
    try:
        for process in processes:
            process.start()
        return _collect(runs, ring, answers)
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _collect(
    runs: Mapping[str, RunConfig], ring: Sequence[Pipe], answers: Sequence[Pipe]
) -> dict[str, tuple[Turn, ...]]:
    ring[0][1].send_bytes(TOKEN)
    for received, sent in ring:
        received.close()
        sent.close()
    for _, sent in answers:
        sent.close()
    return {
        name: _answer(name, received) for name, (received, _) in zip(runs, answers, strict=True)
    }


def _answer(name: str, received: Connection) -> tuple[Turn, ...]:
    try:
        turns: list[tuple[float, float]] = received.recv()
    except EOFError:
        raise EnvError(f"the run {name!r} of the measurement ended before its time") from None
    return tuple(Turn(*turn) for turn in turns)


def _train(
    prepare: Callable[[], None],
    config: RunConfig,
    before: Connection,
    after: Connection,
    answer: Connection,
) -> None:
    prepare()
    holder = _Holder(before, after)
    measure_run(config, holder)
    holder.pass_on()
    answer.send(holder.turns)
