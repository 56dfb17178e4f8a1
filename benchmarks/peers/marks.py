"""Speed from marks that a trainer leaves at the end of its iterations.

Run by interpreters that may have no more than psutil, so it imports nothing of longhaul.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil


def tree_seconds() -> float:
    """Return the processor time of this process and all that descend from it, so far."""
    me = psutil.Process()
    spent = 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            used = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        spent += used.user + used.system
    return spent


class Marks:
    """Times and step counts, of which the first iteration does not count: it sets things up."""

    def __init__(self, cpu_seconds: Callable[[], float] = tree_seconds) -> None:
        self._cpu_seconds = cpu_seconds
        self._marks: list[tuple[float, float, int]] = []

    def __call__(self, steps: int) -> None:
        """Take the time after so many steps."""
        self._marks.append((time.perf_counter(), self._cpu_seconds(), steps))

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._marks)

    def rates(self, skip: int = 0) -> dict[str, float]:
        """Return steps per second and per CPU-second from the mark after `skip` to the last."""
        marks = self._marks[skip:]
        if len(marks) < 2:
            raise ValueError("too few steps to measure")
        (began, began_cpu, before), (ended, ended_cpu, after) = marks[0], marks[-1]
        moved = after - before
        return {
            "steps_per_second": moved / (ended - began),
            "steps_per_cpu_second": moved / (ended_cpu - began_cpu),
        }
