"""A run's metrics, timings and settings as curves of as many points as a screen can show."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.follow import LogFollower

Numbers = NDArray[np.float64]
Row = Mapping[str, Any]

CAPACITY = 4096
MOST_COLUMNS = 600
"""Further columns are only counted."""


@dataclass(frozen=True, slots=True)
class Stretches:
    """A quantity over another one, stretch by stretch."""

    x: Numbers
    mean: Numbers
    low: Numbers
    high: Numbers

    def __len__(self) -> int:
        return len(self.x)

    def between(self, begin: float | None, end: float | None) -> Stretches:
        """Return the part between, and one stretch more on each side for the lines to lead to."""
        first = 0 if begin is None else int(np.searchsorted(self.x, begin, side="left")) - 1
        last = len(self) if end is None else int(np.searchsorted(self.x, end, side="right")) + 1
        kept = slice(max(first, 0), last)
        return Stretches(self.x[kept], self.mean[kept], self.low[kept], self.high[kept])

    def thinned(self, most: int) -> Stretches:
        """Return at most `most` stretches; extremes and both ends are kept.

        Joined stretches count equally in the mean.
        """
        if len(self) <= most:
            return self
        inner = np.linspace(1, len(self) - 1, max(most - 2, 1) + 1).astype(np.int64)[:-1]
        edges = np.unique(np.concatenate([[0], inner, [len(self) - 1]]))
        counts = np.diff(np.append(edges, len(self)))
        return Stretches(
            np.add.reduceat(self.x, edges) / counts,
            np.add.reduceat(self.mean, edges) / counts,
            np.minimum.reduceat(self.low, edges),
            np.maximum.reduceat(self.high, edges),
        )


EMPTY = Stretches(*(np.empty(0) for _ in range(4)))


class Buckets:
    """Means and extremes of every column over stretches of equally many rows.

    Rows are added at the end. When all stretches are full, neighbors are joined: memory depends on
    the number of columns, and up to `capacity` rows every stretch is one row, exactly.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity + capacity % 2
        self._columns: dict[str, int] = {}
        self._room = 64
        self._values = self._empty(0, self._room)
        self._counts = np.zeros((0, self._room), np.uint32)
        self._left_out: set[str] = set()
        self.rows = 0
        self.stride = 1

    @staticmethod
    def _empty(columns: int, room: int) -> Numbers:
        values = np.full((3, columns, room), np.nan)  # lows, highs, totals
        values[2] = 0.0
        return values

    @property
    def names(self) -> tuple[str, ...]:
        """The columns in the order they first appeared."""
        return tuple(self._columns)

    @property
    def left_out(self) -> int:
        """How many names there are beyond those that are kept."""
        return len(self._left_out)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return int(self._values.nbytes + self._counts.nbytes)

    def append(self, rows: Sequence[Row]) -> None:
        """Add rows; fields that are not numbers are ignored."""
        if not rows:
            return
        names = self._take_names(rows)
        if not names:
            return
        matrix = _matrix(rows, names)
        while (self.rows + len(rows) - 1) // self.stride >= self._capacity:
            self._join_neighbors()
        places = (self.rows + np.arange(len(rows))) // self.stride
        self._make_room(int(places[-1]) + 1)
        edges = np.flatnonzero(np.diff(places, prepend=-1))
        targets = np.ix_(np.array([self._columns[name] for name in names]), places[edges])
        known = ~np.isnan(matrix)
        low, high, total = self._values
        low[targets] = np.fmin(low[targets], np.fmin.reduceat(matrix, edges, axis=1))
        high[targets] = np.fmax(high[targets], np.fmax.reduceat(matrix, edges, axis=1))
        total[targets] += np.add.reduceat(np.where(known, matrix, 0.0), edges, axis=1)
        self._counts[targets] += np.add.reduceat(known.astype(np.uint32), edges, axis=1)
        self.rows += len(rows)

    def over(self, name: str, x: str) -> Stretches:
        """Return one column over another; stretches that miss either are left out."""
        if name not in self._columns or x not in self._columns:
            return EMPTY
        used = self._used()
        column, axis = self._columns[name], self._columns[x]
        there = (self._counts[column, :used] > 0) & (self._counts[axis, :used] > 0)
        places = np.flatnonzero(there)
        return Stretches(
            self._values[2, axis, places] / self._counts[axis, places],
            self._values[2, column, places] / self._counts[column, places],
            self._values[0, column, places],
            self._values[1, column, places],
        )

    def totals(self, name: str, x: str) -> tuple[Numbers, Numbers]:
        """Return `x` and the sum of a column up to there."""
        if name not in self._columns or x not in self._columns:
            return np.empty(0), np.empty(0)
        used = self._used()
        column, axis = self._columns[name], self._columns[x]
        places = np.flatnonzero(self._counts[axis, :used] > 0)
        return self._values[1, axis, places], np.cumsum(self._values[2, column, places])

    @property
    def constants(self) -> list[str]:
        """The columns that never changed over all rows."""
        if self.rows < 2:
            return []
        used = self._used()
        low = np.fmin.reduce(self._values[0, :, :used], axis=1)
        high = np.fmax.reduce(self._values[1, :, :used], axis=1)
        return [name for name, column in self._columns.items() if low[column] == high[column]]

    def last(self, name: str) -> float | None:
        """Return the mean of the newest stretch that has the column."""
        found = self.over(name, name).mean
        return float(found[-1]) if len(found) else None

    def _used(self) -> int:
        return -(-self.rows // self.stride)

    def _take_names(self, rows: Sequence[Row]) -> list[str]:
        names = dict.fromkeys(itertools.chain.from_iterable(rows))
        fresh = [name for name in names if name not in self._columns]
        if fresh:
            free = MOST_COLUMNS - len(self._columns)
            self._left_out.update(fresh[free:][:MOST_COLUMNS])
            for name in fresh[:free]:
                self._columns[name] = len(self._columns)
            self._grow(len(self._columns), self._room)
        return [name for name in names if name in self._columns]

    def _make_room(self, needed: int) -> None:
        if needed > self._room:
            room = self._room
            while room < needed:
                room *= 2
            self._grow(len(self._columns), min(room, self._capacity))

    def _grow(self, columns: int, room: int) -> None:
        values, counts = self._empty(columns, room), np.zeros((columns, room), np.uint32)
        had, used = self._counts.shape
        values[:, :had, :used] = self._values
        counts[:had, :used] = self._counts
        self._values, self._counts, self._room = values, counts, room

    def _join_neighbors(self) -> None:
        low, high, total = self._values
        joined = self._empty(len(self._columns), self._room)
        half = self._room // 2
        joined[0, :, :half] = np.fmin(low[:, 0::2], low[:, 1::2])
        joined[1, :, :half] = np.fmax(high[:, 0::2], high[:, 1::2])
        joined[2, :, :half] = total[:, 0::2] + total[:, 1::2]
        counts = np.zeros_like(self._counts)
        counts[:, :half] = self._counts[:, 0::2] + self._counts[:, 1::2]
        self._values, self._counts = joined, counts
        self.stride *= 2


def _matrix(rows: Sequence[Row], names: Sequence[str]) -> Numbers:
    """Return [names, rows], NaN where a row has no finite number of that name."""
    try:
        # An absent field is None, which becomes NaN; this is several times faster than looking.
        table = np.array([list(map(row.get, names)) for row in rows], np.float64)
    except (TypeError, ValueError, OverflowError):
        table = np.array([[_number(row.get(name)) for name in names] for row in rows], np.float64)
    table = table.reshape(len(rows), len(names)).T
    return np.where(np.isfinite(table), table, np.nan)


def _number(value: object) -> float:
    if not isinstance(value, (int, float)):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("nan")


Axis = Literal["steps", "iteration", "seconds"]
COUNTERS = ("iteration", "env_steps", "episodes")
DETAIL_BYTES = 12 * 1024 * 1024
"""A zoomed window reads at most this much of a log again; wider ones come from memory."""


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
        self._tail = LogFollower(path)
        self._marks: list[tuple[float, int]] = []  # the first iteration and offset of a piece
        self.buckets = Buckets()
        self.skipped = 0

    @property
    def share_read(self) -> float:
        """How much of the log is read, from 0 to 1."""
        return min(1.0, self._tail.offset / self._tail.size) if self._tail.size else 1.0

    def advance(self) -> bool:
        """Read one piece; return whether there is more."""
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
        """Approximate memory use."""
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
        """Read a piece of each log; return whether there is more."""
        more = [self.metrics.advance(), self.timings.advance()]
        return any(more)

    def add_settings(self, rows: Sequence[Row]) -> None:
        """Take values of settings from some iterations on."""
        self.settings.append(rows)

    def forget_settings(self) -> None:
        """Drop all values, because their log restarted."""
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
