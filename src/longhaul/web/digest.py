"""A run in one line of the list: how far it came, what it reached, and how its score went."""

from __future__ import annotations

import msgspec

from longhaul.runs.directory import RunDirectory
from longhaul.web.buckets import Buckets
from longhaul.web.shelf import read_small, signature
from longhaul.web.tail import Tail

SPARK_POINTS = 64
RETURN = "rollout/ep_rew_mean"
SCORE = "eval/mean_reward"
_FEW = 2
"""A score measured fewer times than this makes no line; the return of training does."""


class Digest:
    """Follows a run's metrics for the few numbers of the list, in a few kilobytes."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._seen: tuple[int, int, int] | None = None
        self._begin()
        self._tail = Tail(directory.metrics)

    def _begin(self) -> None:
        self.score = _score_name(self._directory)
        self._buckets = Buckets(SPARK_POINTS)
        self._best: dict[str, float] = {}
        self._newest: dict[str, float] = {}
        self.rows = 0
        self.is_whole = False

    @property
    def has_news(self) -> bool:
        """Whether the log changed since it was last read to its end."""
        return not self.is_whole or signature(self._directory.metrics) != self._seen

    def advance(self) -> bool:
        """Read a piece; tell whether there is more."""
        before = signature(self._directory.metrics)
        piece = self._tail.next_piece()
        if piece.restarted:
            self._begin()
        wanted = ("iteration", "env_steps", "episodes", RETURN, self.score)
        rows = [{name: row[name] for name in wanted if name in row} for row in piece.rows]
        self._buckets.append(rows)
        self.rows += len(rows)
        for row in rows:
            self._newest |= row
            for name in (RETURN, self.score):
                value = row.get(name)
                if isinstance(value, (int, float)):
                    self._best[name] = max(self._best.get(name, value), value)
        self.is_whole = piece.is_last
        if piece.is_last:
            self._seen = before
        return not piece.is_last

    @property
    def measured_by(self) -> str:
        """The metric that is shown: the task's own score, or the return while there is none."""
        return self.score if self.score in self._best else RETURN

    @property
    def last(self) -> float | None:
        """The newest value of that metric."""
        return self._newest.get(self.measured_by)

    @property
    def best(self) -> float | None:
        """Its highest value."""
        return self._best.get(self.measured_by)

    def counter(self, name: str) -> float:
        """Return how far the run came: iteration, env_steps or episodes."""
        found = self._newest.get(name, 0)
        return found if isinstance(found, (int, float)) else 0

    def spark(self) -> list[tuple[float, float]]:
        """Return the course of the metric in a few points."""
        found = self._buckets.over(self.measured_by, "env_steps")
        if len(found) < _FEW:
            found = self._buckets.over(RETURN, "env_steps")
        return list(zip(found.x.tolist(), found.mean.tolist(), strict=True))


def _score_name(directory: RunDirectory) -> str:
    """Return the metric a task is measured by, as its run wrote it down."""
    try:
        shown = msgspec.json.decode(read_small(directory.panels) or b"{}")
    except (msgspec.DecodeError, RecursionError):
        return SCORE
    name = shown.get("score") if isinstance(shown, dict) else None
    return name if isinstance(name, str) else SCORE
