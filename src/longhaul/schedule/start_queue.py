"""Hard starts, dealt to the environments in order and counted."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from longhaul.core.config import AT_LEAST_1, SHARE, check_ranges
from longhaul.core.control import Decision, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Assignment, Setting, SettingValue


@dataclass(frozen=True, slots=True)
class QueueStage:
    """One stage of a queue."""

    capacity: int
    category: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """The state of a queue at one moment."""

    index: int  # of the stage, from 1
    label: str
    category: str
    progress: float  # within the stage
    consumed: int
    remaining: int
    remaining_ratio: float  # of the total
    remaining_by_category: Mapping[str, int]
    reentries_by_category: Mapping[str, int]  # stages of it entered so far, without the first


@dataclass(frozen=True, slots=True)
class StageTracker:
    """The stages of a queue, in order."""

    stages: tuple[QueueStage, ...]

    @property
    def total(self) -> int:
        """The capacity of all stages."""
        return sum(stage.capacity for stage in self.stages)

    def ends(self) -> tuple[int, ...]:
        """Return what is consumed at the end of each stage."""
        return tuple(itertools.accumulate(stage.capacity for stage in self.stages))

    def categories(self) -> tuple[str, ...]:
        """Return the categories in order; stages without one have none."""
        return tuple(dict.fromkeys(stage.category for stage in self.stages if stage.category))

    def position(self, consumed: int) -> int:
        """Return the number, from 0, of the first stage that ends after `consumed`.

        Once everything is consumed it is the number of stages.
        """
        return sum(end <= consumed for end in self.ends())

    def status(self, consumed: int, *, stage: int | None = None) -> QueueStatus:
        """Return the status; after the end, that of a finished last stage.

        It describes the stage that comes next, or the one with the number `stage`, from 0.
        """
        total, ends = self.total, self.ends()
        consumed = min(consumed, total)
        position = min(self.position(consumed) if stage is None else stage, len(ends) - 1)
        current = self.stages[position]
        left = dict.fromkeys(self.categories(), 0)
        entered = dict.fromkeys(self.categories(), 0)
        for number, (one, end) in enumerate(zip(self.stages, ends, strict=True)):
            if one.category:
                left[one.category] += min(one.capacity, max(0, end - consumed))
                entered[one.category] += number <= position
        begin = ends[position] - current.capacity
        return QueueStatus(
            index=position + 1,
            label=current.label,
            category=current.category,
            progress=min((consumed - begin) / current.capacity, 1.0),
            consumed=consumed,
            remaining=total - consumed,
            remaining_ratio=(total - consumed) / total,
            remaining_by_category=left,
            reentries_by_category={name: max(0, count - 1) for name, count in entered.items()},
        )


@dataclass(frozen=True, slots=True)
class WarningState:
    """Successive observations of a low ratio, and since when the warning is active."""

    hits: int = 0
    since: int | None = None  # None: no warning is active

    def duration(self, iteration: int) -> int:
        """Return for how many iterations it has been active, this one included."""
        return 0 if self.since is None else iteration - self.since + 1


@dataclass(frozen=True, slots=True)
class LowWarning:
    """Active once the remaining ratio was at or below a threshold often enough in a row."""

    threshold: float = 0.0
    """At or below this share of the whole; 0 or less: never."""
    patience: int = 3

    def observe(self, state: WarningState, iteration: int, ratio: float | None) -> WarningState:
        """Return the state after one iteration; an unknown ratio resolves as a high one does."""
        if self.threshold <= 0 or ratio is None or ratio > self.threshold:
            return WarningState()
        hits = state.hits + 1
        if state.since is None and hits >= self.patience:
            return WarningState(hits, since=iteration)
        return replace(state, hits=hits)


def queue_metrics(
    prefix: str, status: QueueStatus, warning: WarningState, iteration: int
) -> dict[str, float]:
    """Return the metrics that all queues have."""
    by_category = {
        f"{prefix}_remaining": status.remaining_by_category,
        f"{prefix}_reentries": status.reentries_by_category,
    }
    metrics = {
        f"{prefix}_stage": status.index,
        f"{prefix}_stage_progress": status.progress,
        f"{prefix}_remaining": status.remaining,
        f"{prefix}_remaining_ratio": status.remaining_ratio,
        f"{prefix}_low_hits": warning.hits,
        f"{prefix}_warning": warning.since is not None,
        f"{prefix}_warning_duration": warning.duration(iteration),
        **{
            f"{name}_{category}": count
            for name, counts in by_category.items()
            for category, count in counts.items()
        },
    }
    return {name: float(value) for name, value in metrics.items()}


@dataclass(frozen=True, slots=True)
class StartStage:
    """A pool of starts, dealt in order and again from its beginning, for a given length."""

    length: int
    """How long the stage lasts, in the queue's unit."""
    starts: tuple[SettingValue, ...]
    """The pool; each element is what the environment takes as a start."""
    category: str = ""
    """What the stage is counted under; several stages may share one."""
    label: str = ""
    """What people call the stage; `stage 1` and so on if left out."""

    def slice(self, begin: int, count: int) -> tuple[SettingValue, ...]:
        """Return `count` starts from the `begin`-th on, cycling through the pool."""
        return tuple(self.starts[(begin + k) % len(self.starts)] for k in range(count))


@dataclass(frozen=True, slots=True)
class StartQueueState:
    """The position in the queue; the starts to deal next are in the setting."""

    stage: int = 0  # the number of stages once all are over
    used: int = 0  # starts used in this stage, the offset into its pool
    used_of_batch: int = 0  # starts used of those in the setting
    began: int = 0  # the iteration after which the stage began
    laps: int = 0
    low_hits: int = 0  # successive observations of a low remainder
    warned_since: int | None = None  # None: no warning is active


@dataclass(frozen=True, slots=True)
class StartQueue:
    """Deal hard starts from staged pools and keep count of what remains.

    The setting holds the batch that is being dealt, and the next one is written when a metric has
    counted as many starts used as the batch has. A batch is written once, so no start is dealt
    from two sources; between two batches episodes begin normally.
    """

    name: str
    """The controller's unique name."""
    setting: Setting[tuple[SettingValue, ...]]
    """The starts waiting to be dealt; empty once the queue is finished."""
    metric: str
    """Counts the starts used in the iteration."""
    stages: tuple[StartStage, ...]
    """The pools in order."""
    batch: int
    """The most starts handed over at once, and so the most used in one iteration."""
    unit: Literal["starts", "iterations"] = "starts"
    """What a stage's length is counted in."""
    repeat: bool = False
    """Whether to begin again with the first stage after the last."""
    category: Setting[str] | None = None
    """A setting that is given the category of the stage; none: it is only measured."""
    warn_ratio: float = 0.0
    """Warn when this share of the whole queue or less remains; 0 means never."""
    warn_patience: int = 1
    """Successive observations before the warning."""

    def __post_init__(self) -> None:
        where = f"schedule.{self.name}"
        if not self.stages:
            raise ConfigError(f"{where} has no stages")
        for index, stage in enumerate(self.stages):
            if stage.length < 1 or not stage.starts:
                raise ConfigError(
                    f"{where}: {self._label(index)} has length {stage.length} and "
                    f"{len(stage.starts)} starts; both must be at least 1"
                )
            if not re.fullmatch(r"[\w-]*", stage.category):
                raise ConfigError(
                    f"{where}: category {stage.category!r} becomes part of metric names and may "
                    "contain only letters, digits, _ and -"
                )
        check_ranges(self, where, {AT_LEAST_1: "batch warn_patience", SHARE: "warn_ratio"})

    def _label(self, index: int) -> str:
        return self.stages[index].label or f"stage {index + 1}"

    @property
    def reads(self) -> tuple[str, ...]:
        """The count of starts used."""
        return (self.metric,)

    @property
    def writes(self) -> tuple[str, ...]:
        """The starts and the category's setting."""
        names = (self.setting.name,)
        return names if self.category is None else (*names, self.category.name)

    @property
    def emits(self) -> tuple[str, ...]:
        """The queue's own metrics."""
        return tuple(self._metrics(StartQueueState(), 0))

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """The empty queue and every stage's pool."""
        pools = [self.setting.to(()), *(self.setting.to(stage.starts) for stage in self.stages)]
        if self.category is None:
            return tuple(pools)
        return (*pools, *(self.category.to(stage.category) for stage in self.stages))

    @property
    def tracker(self) -> StageTracker:
        """The stages without their starts."""
        return StageTracker(
            tuple(
                QueueStage(stage.length, stage.category, self._label(index))
                for index, stage in enumerate(self.stages)
            )
        )

    def initial(self) -> StartQueueState:
        """Return the state before the first start."""
        return StartQueueState()

    def decide(self, state: StartQueueState, view: View) -> Decision[StartQueueState]:
        """Count what was used, enter the next stage if its time has come, refill the setting."""
        waiting = view.settings[self.setting]
        iteration = view.progress.iteration
        is_counted = self.metric in view.metrics
        # An empty setting before the end is a queue that has not been filled for the first time.
        is_unfilled = not waiting and state.stage < len(self.stages)
        if not (is_counted or is_unfilled or self._stage_is_over(state, iteration)):
            return Decision(state)
        count = min(int(view.metrics.get(self.metric, 0)), len(waiting) - state.used_of_batch)
        state = replace(state, used=state.used + count, used_of_batch=state.used_of_batch + count)
        before = state
        while self._stage_is_over(state, iteration):
            state = self._next_stage(state)
        has_moved = (state.stage, state.laps) != (before.stage, before.laps)
        why = f"{self._words(state)}" if has_moved else ""
        if has_moved or state.used_of_batch >= len(waiting):
            state = replace(state, used_of_batch=0)
            waiting = self._batch(state, waiting)
            why = why or f"{self._words(state)}, from start {state.used}"
        if is_counted:
            state, warning = self._watch(state, iteration)
            why = "; ".join(part for part in (why, warning) if part)
        return Decision(
            state, self._changes(state, view, waiting), why, self._metrics(state, iteration)
        )

    def _stage_is_over(self, state: StartQueueState, iteration: int) -> bool:
        if state.stage >= len(self.stages):
            return False
        done = state.used if self.unit == "starts" else iteration - state.began
        return done >= self.stages[state.stage].length

    def _next_stage(self, state: StartQueueState) -> StartQueueState:
        """Return the state at the beginning of the next stage, its pool dealt from the top."""
        began = state.began
        if self.unit == "iterations":
            began += self.stages[state.stage].length
        stage, laps = state.stage + 1, state.laps
        if stage == len(self.stages) and self.repeat:
            stage, laps = 0, laps + 1
        return replace(state, stage=stage, laps=laps, used=0, used_of_batch=0, began=began)

    def _batch(
        self, state: StartQueueState, previous: tuple[SettingValue, ...]
    ) -> tuple[SettingValue, ...]:
        if state.stage >= len(self.stages):
            return ()
        stage = self.stages[state.stage]
        size = self.batch
        if self.unit == "starts":
            size = min(size, stage.length - state.used)
        batch = stage.slice(state.used, size)
        # A setting that keeps its value is not dealt again, so a batch like the last is one longer.
        return stage.slice(state.used, size + 1) if batch == previous else batch

    def _changes(
        self, state: StartQueueState, view: View, waiting: tuple[SettingValue, ...]
    ) -> tuple[Assignment, ...]:
        changes: list[Assignment] = []
        if waiting != view.settings[self.setting]:
            changes.append(self.setting.to(waiting))
        if self.category is not None and state.stage < len(self.stages):
            category = self.stages[state.stage].category
            if category != view.settings[self.category]:
                changes.append(self.category.to(category))
        return tuple(changes)

    def _watch(self, state: StartQueueState, iteration: int) -> tuple[StartQueueState, str]:
        """Return the state with the warning raised, kept or cleared, and what to say about it."""
        before = WarningState(state.low_hits, state.warned_since)
        ratio = self._status(state, iteration).remaining_ratio
        after = LowWarning(self.warn_ratio, self.warn_patience).observe(before, iteration, ratio)
        state = replace(state, low_hits=after.hits, warned_since=after.since)
        if before.since is not None and after.since is None:
            lasted = iteration - before.since
            return state, f"warning cleared after {lasted} iterations, {ratio:.1%} remain"
        if before.since is None and after.since is not None:
            return state, f"warning: {ratio:.1%} of the starts remain, {self.warn_ratio:.1%} is low"
        return state, ""

    def _status(self, state: StartQueueState, iteration: int) -> QueueStatus:
        """Return the status in the present lap."""
        consumed = sum(stage.length for stage in self.stages[: state.stage])
        if state.stage < len(self.stages):
            within = state.used if self.unit == "starts" else iteration - state.began
            consumed += min(within, self.stages[state.stage].length)
        return self.tracker.status(consumed, stage=state.stage)

    def _words(self, state: StartQueueState) -> str:
        is_over = state.stage >= len(self.stages)
        return "all stages are over" if is_over else self._label(state.stage)

    def _metrics(self, state: StartQueueState, iteration: int) -> dict[str, float]:
        prefix = f"starts/{self.name}"
        warning = WarningState(state.low_hits, state.warned_since)
        metrics = queue_metrics(prefix, self._status(state, iteration), warning, iteration)
        return {**metrics, f"{prefix}_laps": float(state.laps)}
