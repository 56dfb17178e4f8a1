"""Runs in processes of their own that take turns, one iteration each.

What a machine gives changes from second to second by more than most differences worth measuring.
Runs whose iterations alternate meet the same machine, and what the threads of a run do in the turns
of the others still counts as the processor time of its own process.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection

from longhaul.app.bench.training import measure_run
from longhaul.app.config import RunConfig
from longhaul.core.errors import EnvError
from longhaul.core.progress import Progress

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


def take_turns(runs: Mapping[str, RunConfig]) -> dict[str, tuple[Turn, ...]]:
    """Train all runs, each in a process of its own, one iteration in turn; return their turns.

    The first turn of each does not count, nor does the last one. All must have as many iterations.
    """
    context = multiprocessing.get_context("spawn")
    count = len(runs)
    ring = [context.Pipe(duplex=False) for _ in runs]
    answers = [context.Pipe(duplex=False) for _ in runs]
    processes = [
        context.Process(
            target=_train,
            args=(config, ring[index][0], ring[(index + 1) % count][1], answers[index][1]),
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


def _train(config: RunConfig, before: Connection, after: Connection, answer: Connection) -> None:
    holder = _Holder(before, after)
    measure_run(config, holder)
    holder.pass_on()
    answer.send(holder.turns)
