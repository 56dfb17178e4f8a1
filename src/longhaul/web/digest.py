"""A run in one line of the list: how far it came, what it reached, and how its score went."""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec

from longhaul.runs.directory import RunDirectory
from longhaul.web.buckets import Buckets
from longhaul.web.shelf import read_small, signature
from longhaul.web.tail import Tail, only

SPARK_POINTS = 64
RETURN = "rollout/ep_rew_mean"
SCORE = "eval/mean_reward"
COUNTERS = ("iteration", "env_steps", "episodes")
_FEW = 2
"""A score measured fewer times than this makes no line; the return of training does."""


@dataclass(frozen=True, slots=True)
class Line:
    """The numbers of one line; replaced as a whole, so that any thread may read them."""

    rows: int = 0
    counters: tuple[float, float, float] = (0, 0, 0)  # iteration, env_steps, episodes
    measured_by: str = RETURN
    """The metric that is shown: the task's own score, or the return while there is none."""
    last: float | None = None
    best: float | None = None
    spark: tuple[tuple[float, float], ...] = ()
    is_whole: bool = False


class Digest:
    """Follows a run's metrics for the few numbers of the list, in a few kilobytes."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._seen: tuple[int, int, int] | None = None
        self._score = _score_name(directory)
        self._tail = self._follow()
        self._begin()

    def _follow(self) -> Tail:
        return Tail(self._directory.metrics, only((*COUNTERS, RETURN, self._score)))

    def _begin(self) -> None:
        self._buckets = Buckets(SPARK_POINTS)
        self._best: dict[str, float] = {}
        self._newest: dict[str, float] = {}
        self._rows = 0
        self.line = Line()

    @property
    def has_news(self) -> bool:
        """Whether the log changed since it was last read to its end."""
        return not self.line.is_whole or signature(self._directory.metrics) != self._seen

    def advance(self) -> bool:
        """Read a piece; tell whether there is more."""
        before = signature(self._directory.metrics)
        if self._tail.offset == 0 and (score := _score_name(self._directory)) != self._score:
            # A run writes down what it is measured by when it begins, maybe after we looked.
            self._score, self._tail = score, self._follow()
        piece = self._tail.next_piece()
        if piece.restarted:
            self._begin()
        self._buckets.append(piece.rows)
        self._rows += len(piece.rows)
        for name in (*COUNTERS, RETURN, self._score):
            values = [row[name] for row in piece.rows if name in row]
            numbers = [value for value in values if isinstance(value, (int, float))]
            if numbers:
                self._newest[name] = numbers[-1]
                self._best[name] = max(self._best.get(name, -math.inf), *numbers)
        if piece.is_last:
            self._seen = before
        self.line = self._sum_up(is_whole=piece.is_last)
        return not piece.is_last

    def _sum_up(self, *, is_whole: bool) -> Line:
        name = self._score if self._score in self._best else RETURN
        iteration, steps, episodes = (self._newest.get(counter, 0) for counter in COUNTERS)
        found = self._buckets.over(name, "env_steps")
        if len(found) < _FEW:
            found = self._buckets.over(RETURN, "env_steps")
        return Line(
            rows=self._rows,
            counters=(iteration, steps, episodes),
            measured_by=name,
            last=self._newest.get(name),
            best=self._best.get(name),
            spark=tuple(zip(found.x.tolist(), found.mean.tolist(), strict=True)),
            is_whole=is_whole,
        )


def _score_name(directory: RunDirectory) -> str:
    """Return the metric a task is measured by, as its run wrote it down."""
    try:
        shown = msgspec.json.decode(read_small(directory.panels) or b"{}")
    except (msgspec.DecodeError, RecursionError):
        return SCORE
    name = shown.get("score") if isinstance(shown, dict) else None
    return name if isinstance(name, str) else SCORE
