"""A run as one entry of the list: progress, score, best score and a small curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from longhaul.core.config import parse_toml
from longhaul.core.control import Progress, RunLength
from longhaul.runs.directory import RunDirectory, Status
from longhaul.runs.logs.follow import LogFollower, Row, only, signature
from longhaul.runs.monitor.heartbeat import Beat
from longhaul.runs.reader import RunState
from longhaul.runs.score import (
    EPISODES,
    SPREAD,
    TRAINING_RETURN,
    Measure,
    Score,
    newest_score,
    parse_final_score,
    read_measure,
    training_score,
)
from longhaul.web.curves import Buckets
from longhaul.web.files import read_small

SPARK_POINTS = 64
COUNTERS = ("iteration", "env_steps", "episodes")
_FEW = 2
"""With fewer measurements than this, the small curve shows the training return."""


@dataclass(frozen=True, slots=True)
class CurveLine:
    """The numbers of one list entry; replaced as a whole, so any thread may read them."""

    rows: int = 0
    counters: tuple[float, float, float] = (0, 0, 0)  # iteration, env_steps, episodes
    measure: Measure = field(default_factory=Measure)
    score: Score | None = None
    best: Score | None = None
    """The best evaluation during training, the last of equal ones."""
    spark: tuple[tuple[float, float], ...] = ()
    spark_of: str = TRAINING_RETURN
    """The metric the small curve is of."""
    is_whole: bool = False


class RunSummary:
    """Follows a run's metrics for the few numbers of the list, in a few kilobytes."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._seen: tuple[object, ...] | None = None
        self._measure = _read_measure(directory)
        self._tail = self._follow()
        self._begin()

    def _follow(self) -> LogFollower:
        names = (TRAINING_RETURN, self._measure.metric, SPREAD, EPISODES)
        return LogFollower(self._directory.metrics, only((*COUNTERS, *names)))

    def _begin(self) -> None:
        self._buckets = Buckets(SPARK_POINTS)
        self._counters: dict[str, float] = {}
        self._evaluation: Score | None = None
        self._training: Score | None = None
        self._best: Score | None = None
        self._rows = 0
        self.line = CurveLine(measure=self._measure)

    @property
    def has_news(self) -> bool:
        """Whether a file it reads changed since it was last read to its end."""
        return not self.line.is_whole or self._signatures() != self._seen

    def _signatures(self) -> tuple[object, ...]:
        return (signature(self._directory.metrics), signature(self._directory.final_score))

    def advance(self) -> bool:
        """Read a piece; return whether there is more."""
        before = self._signatures()
        if self._tail.offset == 0 and (found := _read_measure(self._directory)) != self._measure:
            # A run writes its measure when it starts, which may be after the first read.
            self._measure, self._tail = found, self._follow()
        piece = self._tail.next_piece()
        if piece.restarted:
            self._begin()
        self._buckets.append(piece.rows)
        self._rows += len(piece.rows)
        self._take(piece.rows)
        if piece.is_last:
            self._seen = before
        self.line = self._sum_up(is_whole=piece.is_last)
        return not piece.is_last

    def _take(self, rows: Sequence[Row]) -> None:
        """Take the newest figures of some rows, and the best evaluation."""
        newest = rows[-1] if rows else {}
        self._counters |= {name: newest[name] for name in COUNTERS if _is_number(newest.get(name))}
        metric = self._measure.metric
        found = [row for row in reversed(rows) if _is_number(row.get(metric))]
        if found:
            self._evaluation = self._measured(found[0])
            best = self._measured(max(found, key=lambda row: float(row[metric])))
            if best is not None and (self._best is None or best.value >= self._best.value):
                self._best = best
        returned = (row for row in reversed(rows) if _is_number(row.get(TRAINING_RETURN)))
        if (last := next(returned, None)) is not None:
            self._training = training_score(last, _steps(last))

    def _measured(self, row: Row) -> Score | None:
        return self._measure.of(row, _steps(row))

    def _sum_up(self, *, is_whole: bool) -> CurveLine:
        iteration, steps, episodes = (self._counters.get(counter, 0) for counter in COUNTERS)
        name = self._measure.metric
        found = self._buckets.over(name, "env_steps")
        if len(found) < _FEW:
            name = TRAINING_RETURN
            found = self._buckets.over(name, "env_steps")
        final = self._final()
        return CurveLine(
            rows=self._rows,
            counters=(iteration, steps, episodes),
            measure=self._measure,
            score=newest_score(final, self._evaluation, self._training, env_steps=int(steps)),
            best=self._best,
            spark=tuple(zip(found.x.tolist(), found.mean.tolist(), strict=True)),
            spark_of=name,
            is_whole=is_whole,
        )

    def _final(self) -> Score | None:
        """Return the final evaluation; None if its folder is a link that leads out."""
        if self._directory.evaluations.is_symlink():
            return None
        return parse_final_score(read_small(self._directory.final_score) or b"")


def _is_number(value: object) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return math.isfinite(value)


def _steps(row: Row) -> int:
    steps = row.get("env_steps")
    return int(steps) if isinstance(steps, (int, float)) and math.isfinite(steps) else 0


def _read_measure(directory: RunDirectory) -> Measure:
    """Return the measure that a run recorded."""
    return read_measure(read_small(directory.panels) or b"", read_small(directory.config) or b"")


Kind = Literal["running", "stalled", "crashed", "finished", "stopped", "failed"]
SILENT_SECONDS = 20.0
"""Heartbeats come every two seconds; one this late means a stopped process or machine."""
STUCK_SECONDS = 120.0
"""Longer than any stage of a normal iteration."""
STUCK_ITERATIONS = 20.0


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The kind of status, and the reason for it in words."""

    kind: Kind
    words: str


def run_status(state: RunState, *, now: float, slowest_iteration: float = 0.0) -> RunStatus:
    """Return the status of a run; `slowest_iteration` is its longest one so far, in seconds."""
    reason = state.record.reason
    match state.record.status:
        case Status.FINISHED:
            return RunStatus("finished", reason or "it reached its end")
        case Status.STOPPED:
            return RunStatus("stopped", reason or "it was stopped and can be resumed")
        case Status.FAILED:
            return RunStatus("failed", reason or "it ended with an error")
        case Status.RUNNING:
            return _running(state, now, slowest_iteration)


def _running(state: RunState, now: float, slowest_iteration: float) -> RunStatus:
    holder, beat = state.holder, state.beat
    if holder is None or not holder.is_alive:
        return RunStatus(
            "crashed", "its process ended without recording why; the run can be resumed"
        )
    if beat is None:
        return RunStatus("running", "it is starting")
    silence = now - beat.wall
    if silence > SILENT_SECONDS:
        return RunStatus("stalled", f"its last heartbeat was {silence:.0f} s ago")
    patience = max(STUCK_SECONDS, STUCK_ITERATIONS * slowest_iteration)
    if beat.stage_seconds > patience:
        return RunStatus("stalled", f"it has been in {beat.stage} for {beat.stage_seconds:.0f} s")
    return RunStatus("running", beat.stage)


SPEEDS = ("time/session_fps", "time/fps")
"""Rates by which the rest is estimated, the steadier one first."""


def seconds_left(length: RunLength, beat: Beat, progress: Progress) -> float | None:
    """Return how long the rest takes at the speed of this session; None if it is unknown."""
    share = length.share(progress)
    speed = next((beat.rates[name] for name in SPEEDS if beat.rates.get(name)), 0.0)
    if not share or speed <= 0:
        return None
    return progress.env_steps * (1 - share) / share / speed


def read_length(config: bytes) -> RunLength:
    """Return the training length of a config; empty if it is damaged."""
    try:
        return msgspec.convert(parse_toml(config.decode()), RunLength)
    except (msgspec.ValidationError, ValueError):
        return RunLength()
