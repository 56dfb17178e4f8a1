"""A run's metrics, timings and settings as curves of as many points as a screen can show."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from longhaul.runs.directory import RunDirectory
from longhaul.web.buckets import EMPTY, Buckets, Numbers, Row, Stretches
from longhaul.web.tail import Tail

Axis = Literal["steps", "iteration", "seconds"]
COUNTERS = ("iteration", "env_steps", "episodes")
DETAIL_BYTES = 12 * 1024 * 1024
"""A closer look reads this much of a log again at most; wider ones are answered from memory."""


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a run that is asked for; None is an open end."""

    over: Axis = "steps"
    begin: float | None = None
    end: float | None = None
    points: int = 400


class Log:
    """One log in stretches, with marks to find single rows again."""

    def __init__(self, path: Path) -> None:
        self._tail = Tail(path)
        self._marks: list[tuple[float, int]] = []  # the first iteration and offset of a piece
        self.buckets = Buckets()
        self.skipped = 0

    @property
    def share_read(self) -> float:
        """How much of the log is read, from 0 to 1."""
        return min(1.0, self._tail.offset / self._tail.size) if self._tail.size else 1.0

    def advance(self) -> bool:
        """Read one piece; tell whether there is more."""
        piece = self._tail.next_piece()
        if piece.restarted:
            self._marks.clear()
            self.buckets = Buckets()
            self.skipped = 0
        self.skipped += piece.skipped
        if piece.rows:
            first = piece.rows[0].get("iteration")
            if isinstance(first, (int, float)):
                self._marks.append((float(first), piece.begin))
            self.buckets.append(piece.rows)
        return not piece.is_last

    def detail(self, names: tuple[str, ...], begin: float, end: float) -> Buckets | None:
        """Return some columns between two iterations row by row, None if that is too much."""
        if self.buckets.stride == 1 or not self._marks:
            return None
        firsts = [iteration for iteration, _ in self._marks]
        first = max(bisect_right(firsts, begin) - 1, 0)
        last = bisect_right(firsts, end)
        stop = self._marks[last][1] if last < len(self._marks) else self._tail.offset
        start = self._marks[first][1]
        if stop - start > DETAIL_BYTES:
            return None
        wanted = {*names, *COUNTERS}
        near = [
            {name: value for name, value in row.items() if name in wanted}
            for row in self._tail.read_from(start, stop)
            if isinstance(row.get("iteration"), (int, float))
            and begin - 1 <= row["iteration"] <= end + 1
        ]
        found = Buckets()
        found.append(near)
        return found


class RunCurves:
    """Everything of one run that can be drawn; grows with the run's logs."""

    def __init__(self, directory: RunDirectory) -> None:
        self.metrics = Log(directory.metrics)
        self.timings = Log(directory.timings)
        self.settings = Buckets()

    @property
    def nbytes(self) -> int:
        """Memory it takes, nearly."""
        logs = (self.metrics.buckets, self.timings.buckets, self.settings)
        return sum(buckets.nbytes for buckets in logs)

    @property
    def names(self) -> tuple[str, ...]:
        """All metrics that can be drawn."""
        found = dict.fromkeys((*self.metrics.buckets.names, *self.timings.buckets.names))
        return tuple(name for name in found if name not in COUNTERS)

    @property
    def constants(self) -> list[str]:
        """The metrics that never changed."""
        found = (*self.metrics.buckets.constants, *self.timings.buckets.constants)
        return [name for name in found if name not in COUNTERS]

    @property
    def share_read(self) -> float:
        """How much of the logs is read, from 0 to 1."""
        return min(self.metrics.share_read, self.timings.share_read)

    def advance(self) -> bool:
        """Read a piece of each log; tell whether there is more."""
        more = [self.metrics.advance(), self.timings.advance()]
        return any(more)

    def add_settings(self, rows: Sequence[Row]) -> None:
        """Take values of settings from some iterations on."""
        self.settings.append(rows)

    def forget_settings(self) -> None:
        """Begin anew, because the log they were read from did."""
        self.settings = Buckets()

    def curve(self, name: str, window: Window) -> Stretches:
        """Return one metric or setting in a window, as exact as its width in points allows."""
        if name in self.settings.names:
            return self._held(self._along(self.settings, name, window.over), window)
        log = self.metrics if name in self.metrics.buckets.names else self.timings
        detail = None
        if window.begin is not None and window.end is not None:
            begin, end = (
                self._to_iteration(place, window.over) for place in (window.begin, window.end)
            )
            detail = log.detail((name,), begin, end)
        found = self._along(detail or log.buckets, name, window.over)
        return found.between(window.begin, window.end).thinned(window.points)

    def _held(self, found: Stretches, window: Window) -> Stretches:
        """Return a setting's values, the last one held to the end of the run."""
        end = self._end(window.over)
        if len(found) and end > found.x[-1]:
            found = Stretches(
                np.append(found.x, end),
                *(np.append(part, part[-1]) for part in (found.mean, found.low, found.high)),
            )
        return found.between(window.begin, window.end).thinned(window.points)

    def _end(self, over: Axis) -> float:
        steps = self.metrics.buckets.over("env_steps", "iteration")
        if not len(steps):
            return 0.0
        return float(self._from_iteration(steps.x[-1:], over)[0])

    def _along(self, buckets: Buckets, name: str, over: Axis) -> Stretches:
        if over == "steps" and "env_steps" in buckets.names:
            return buckets.over(name, "env_steps")
        found = buckets.over(name, "iteration")
        if over == "iteration" or not len(found):
            return found
        return Stretches(self._from_iteration(found.x, over), found.mean, found.low, found.high)

    def _from_iteration(self, iterations: Numbers, over: Axis) -> Numbers:
        known, there = self._scale(over)
        return iterations if not len(known) else np.interp(iterations, known, there)

    def _to_iteration(self, place: float, over: Axis) -> float:
        known, there = self._scale(over)
        return place if not len(known) else float(np.interp(place, there, known))

    def _scale(self, over: Axis) -> tuple[Numbers, Numbers]:
        """Return iterations and where they are on another axis; nothing for their own."""
        if over == "steps":
            found = self.metrics.buckets.over("env_steps", "iteration")
            return found.x, found.mean
        if over == "seconds":
            return self.timings.buckets.totals("time/iteration_seconds", "iteration")
        return EMPTY.x, EMPTY.mean
