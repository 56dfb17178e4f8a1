"""The controller that deals bad starts stage by stage and keeps count of all of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from longhaul.core.control import Decision, View
from longhaul.core.settings import Assignment, Setting
from longhaul.envs.starts import STARTS, STARTS_DEALT, STARTS_LIMIT
from longhaul.schedule.start_queue import (
    LowWarning,
    QueueStage,
    QueueStatus,
    StageTracker,
    WarningState,
    queue_metrics,
)
from longhaul.tasks.fish.hard_starts.laps import (
    NEVER,
    Candidate,
    LapRules,
    Replays,
    hardest,
    make_lap,
    settle,
)
from longhaul.tasks.fish.options import TAIL_TYPE

NAME = "tail"
EPISODES = "rollout/episodes"
FORCED_RESETS = f"starts/{NAME}_forced_resets"
UNLIMITED = 2**53
"""More starts than any run deals, and still exact in JSON."""

Unit = Literal["iterations", "resets"]


def lost_metric(item: str) -> str:
    """Return the metric with the mean share of fish lost in the replays of one start."""
    return f"starts/{NAME}_lost_{item}"


def replays_metric(item: str) -> str:
    """Return the metric that counts the replays of one start that ended."""
    return f"starts/{NAME}_replays_{item}"


@dataclass(frozen=True, slots=True)
class TailStage(QueueStage):
    """A stage with its starts; one without any is a rest."""

    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class TailState:
    """How much is used up, what came of each start, and the warning."""

    consumed: int = 0  # of all stages' capacity
    dealt: int = 0  # starts that episodes began from, since the run began
    forced: int = 0  # episodes cut to deal more, since the run began
    lap_began: int = 0  # `dealt` when the present lap was offered
    gate: int | None = None  # the gate's stage when last seen
    history: dict[str, Replays] = field(default_factory=dict)
    warning: WarningState = field(default_factory=WarningState)


@dataclass(frozen=True, slots=True)
class TailQueue:
    """Offer each stage's starts, exactly as long as the stage lasts.

    In unit `resets` a start that is dealt uses up one place, and no more than the stage's capacity
    are dealt; in unit `iterations` every iteration uses up as many places as there are schools.
    Either way the stage that is logged is the stage that is dealt from.
    """

    name: ClassVar = NAME
    writes: ClassVar = (STARTS.name, STARTS_LIMIT.name, TAIL_TYPE.name)

    stages: tuple[TailStage, ...]
    schools: int
    """Schools that reset: what one iteration uses up in unit `iterations`."""
    unit: Unit = "iterations"
    per_iteration: int = 0
    """Most starts dealt in an iteration; 0: every reset takes one."""
    rules: LapRules = field(default_factory=LapRules)
    warning: LowWarning = field(default_factory=LowWarning)
    gate: Setting[int] | None = None
    """The gate's stage, whose moves spare the hardest starts."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The counts of starts dealt and episodes ended, what came of each start, and the gate."""
        items = [
            name for item in self._items() for name in (lost_metric(item), replays_metric(item))
        ]
        gate = () if self.gate is None else (self.gate.name,)
        return (STARTS_DEALT, EPISODES, FORCED_RESETS, *items, *gate)

    @property
    def emits(self) -> tuple[str, ...]:
        """The queue's own metrics."""
        return tuple(self._metrics(TailState(), TailState(), 0))

    @property
    def tracker(self) -> StageTracker:
        """The stages without their starts."""
        return StageTracker(self.stages)

    def _items(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c.id for stage in self.stages for c in stage.candidates))

    def initial(self) -> TailState:
        """Return the state before the first start."""
        return TailState()

    def decide(self, state: TailState, view: View) -> Decision[TailState]:
        """Count, move on to the next stage if its time has come, and offer its next lap."""
        before, iteration = state, view.progress.iteration
        state = self._counted(state, view)
        tracker = self.tracker
        status = tracker.status(state.consumed)
        position = tracker.position(state.consumed)
        offered = view.settings[STARTS]
        has_moved = iteration == 0 or position != tracker.position(before.consumed)
        gate_moved = state.gate != before.gate and before.gate is not None
        is_through = state.dealt - state.lap_began >= len(offered)
        if position >= len(self.stages):
            offered = ()
        elif has_moved or gate_moved or is_through:
            state = replace(state, lap_began=state.dealt)
            offered = self._lap(state, position, iteration, gate_moved=gate_moved)
        warning = self.warning.observe(state.warning, iteration, status.remaining_ratio)
        state = replace(state, warning=warning if iteration else WarningState())
        changes = (
            STARTS.to(offered),
            STARTS_LIMIT.to(self._limit(state, position)),
            TAIL_TYPE.to(status.category),
        )
        why = self._why(before, state, status, has_moved=has_moved, gate_moved=gate_moved)
        return Decision(state, _moved(changes, view), why, self._metrics(before, state, iteration))

    def _counted(self, state: TailState, view: View) -> TailState:
        """Return the state after what this iteration dealt and ended."""
        metrics, iteration = view.metrics, view.progress.iteration
        dealt = int(metrics.get(STARTS_DEALT, 0))
        used = self._used(state, view) if self.unit == "resets" else iteration * self.schools
        history = dict(state.history)
        for item in self._items():
            if count := int(metrics.get(replays_metric(item), 0)):
                window = max(self.rules.window, 1)
                lost = metrics[lost_metric(item)]
                history[item] = history.get(item, NEVER).after(count, lost, window=window)
        return replace(
            state,
            consumed=min(used, self.tracker.total),
            dealt=state.dealt + dealt,
            forced=state.forced + int(metrics.get(FORCED_RESETS, 0)),
            gate=None if self.gate is None else view.settings[self.gate],
            history=settle(history, self.rules, iteration),
        )

    def _used(self, state: TailState, view: View) -> int:
        """Return what is consumed in resets; in a rest every episode that ended is one."""
        position = self.tracker.position(state.consumed)
        if position < len(self.stages) and not self.stages[position].candidates:
            ended = int(view.metrics.get(EPISODES, 0))
            return min(state.consumed + ended, self.tracker.ends()[position])
        return state.consumed + int(view.metrics.get(STARTS_DEALT, 0))

    def _lap(
        self, state: TailState, position: int, iteration: int, *, gate_moved: bool
    ) -> tuple[tuple[str, str], ...]:
        candidates = self.stages[position].candidates
        spared = frozenset[str]()
        if gate_moved:
            spared = hardest(candidates, state.history, self.rules.spared)
        lap = make_lap(candidates, state.history, self.rules, iteration=iteration, left_out=spared)
        return tuple((NAME, item) for item in lap)

    def _limit(self, state: TailState, position: int) -> int:
        """Return how many starts may have been dealt in all before this is asked again."""
        if position >= len(self.stages):
            return 0
        limit = UNLIMITED
        if self.unit == "resets":
            limit = self.tracker.ends()[position] - state.consumed + state.dealt
        if self.per_iteration:
            limit = min(limit, state.dealt + self.per_iteration)
        return limit

    def _why(
        self,
        before: TailState,
        state: TailState,
        status: QueueStatus,
        *,
        has_moved: bool,
        gate_moved: bool,
    ) -> str:
        is_over = status.remaining == 0
        aside = [
            name
            for name, replays in state.history.items()
            if replays.out_until > before.history.get(name, NEVER).out_until
        ]
        words = {
            f"stage {status.index}, {status.label}": has_moved and not is_over,
            "all stages are over": has_moved and is_over,
            "the gate moved, the hardest starts are spared": gate_moved and not is_over,
            f"set aside after failing {self.rules.window} times: {', '.join(aside)}": bool(aside),
            f"warning: {status.remaining_ratio:.1%} of the starts remain, "
            f"{self.warning.threshold:.1%} is low": state.warning.since is not None
            and before.warning.since is None,
            f"warning cleared, {status.remaining_ratio:.1%} remain": state.warning.since is None
            and before.warning.since is not None,
        }
        return "; ".join(text for text, applies in words.items() if applies)

    def _metrics(self, before: TailState, state: TailState, iteration: int) -> dict[str, float]:
        prefix = f"starts/{NAME}"
        tracker, warning = self.tracker, state.warning
        # The stage the iteration was dealt from, which may have ended with it.
        status = tracker.status(state.consumed, stage=tracker.position(before.consumed))
        out = sum(self.rules.is_out(one, iteration) for one in state.history.values())
        metrics = {
            f"{prefix}_consumed": status.consumed,
            f"{prefix}_injections": state.dealt - before.dealt,
            f"{prefix}_injections_total": state.dealt,
            f"{prefix}_forced_resets_total": state.forced,
            f"{prefix}_set_aside": out,
            f"{prefix}_warning_since": warning.since or 0,
            f"{prefix}_warning_threshold": self.warning.threshold,
        }
        return {
            **queue_metrics(prefix, status, warning, iteration),
            **{name: float(value) for name, value in metrics.items()},
        }


def _moved(changes: tuple[Assignment, ...], view: View) -> tuple[Assignment, ...]:
    """Return the assignments that change something."""
    values = view.settings.values()
    return tuple(change for change in changes if values[change.name] != change.value)
