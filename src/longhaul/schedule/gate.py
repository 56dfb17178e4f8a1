"""A stage that rises only while evaluations are good."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from longhaul.core.config import AT_LEAST_0, AT_LEAST_1, AT_LEAST_2, Ranges, check_ranges
from longhaul.core.control import Decision, View, WritesOne
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Assignment, Setting
from longhaul.schedule.criterion import Criterion, History, Verdict, all_measured, metric_names

Event = Literal[
    "rollback", "failure_hold", "locked", "frozen", "advance", "success_progress", "noop"
]


@dataclass(frozen=True, slots=True)
class GateState:
    """Streaks of evaluations, the end of the freeze and the measurements medians need."""

    success_streak: int = 0
    failure_streak: int = 0
    freeze_until: int = 0  # the first iteration at which progress counts again
    held: int = 0  # evaluations since the stage last changed
    history: History = field(default_factory=History)


@dataclass(frozen=True, slots=True)
class Assessment:
    """One evaluation, judged."""

    success: tuple[Verdict, ...]
    failure: tuple[Verdict, ...]

    @property
    def failed_by(self) -> tuple[Verdict, ...]:
        """The failure criteria that hold."""
        return tuple(verdict for verdict in self.failure if verdict.holds)

    @property
    def blocked_by(self) -> tuple[Verdict, ...]:
        """The success criteria that do not hold."""
        return tuple(verdict for verdict in self.success if not verdict.holds)


_RANGES: Ranges = {
    AT_LEAST_2: "stages",
    AT_LEAST_1: "patience",
    AT_LEAST_0: "tolerance freeze success_freeze lock_until",
}


@dataclass(frozen=True, slots=True)
class Gate(WritesOne):
    """Raise a stage after repeated success, hold it after a failure, lower it after several.

    An evaluation is an iteration in which every metric of the criteria was measured. It is a
    success if all success criteria hold and a failure if any failure criterion holds.
    """

    name: str
    """The controller's unique name."""
    setting: Setting[int]
    """The stage, from 0 to `stages` - 1."""
    stages: int
    """How many stages there are."""
    success: tuple[Criterion, ...]
    """All of them must hold for a success."""
    failure: tuple[Criterion, ...] = ()
    """Any of them makes a failure, whatever the success criteria say."""
    patience: int = 1
    """Successive successes needed to climb one stage."""
    tolerance: int = 2
    """Successive failures after which the stage falls by one; 0 means it never falls."""
    tolerance_by_category: dict[str, int] = field(default_factory=dict)
    """Tolerances for single categories."""
    freeze: int = 0
    """Iterations without progress after a failure, a fall or a climb."""
    success_freeze: int = 0
    """Iterations without progress after a success that did not climb."""
    lock_until: int = 0
    """The last iteration at which no progress is counted."""
    category: Setting[str] | None = None
    """The setting that names the category of an evaluation, for `by_category`; none: no name."""

    def __post_init__(self) -> None:
        if not self.success:
            raise ConfigError(f"schedule.{self.name} has no success criterion, so it never opens")
        check_ranges(self, f"schedule.{self.name}", _RANGES)

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """The success and the failure criteria."""
        return (*self.success, *self.failure)

    @property
    def reads(self) -> tuple[str, ...]:
        """The metrics of the criteria and the setting that names the category."""
        names = metric_names(self.criteria)
        return names if self.category is None else (*names, self.category.name)

    @property
    def emits(self) -> tuple[str, ...]:
        """The gate's own metrics."""
        own = self._metrics(GateState(), 0, Assessment((), ()))
        return (*own, *(self._missing_name(name) for name in metric_names(self.success)))

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """The outermost values it may assign."""
        return (self.setting.to(0), self.setting.to(self.stages - 1))

    def initial(self) -> GateState:
        """Return the state before the first evaluation."""
        return GateState()

    def decide(self, state: GateState, view: View) -> Decision[GateState]:
        """Judge an evaluation and move the stage by at most one."""
        if not all_measured(self.criteria, view.metrics):
            return Decision(state)
        category = "" if self.category is None else view.settings[self.category]
        stage = view.settings[self.setting]
        history = state.history.with_(view.metrics, self.criteria, category)
        assessment = self._assess(history, stage, category)
        streak = state.failure_streak + 1 if assessment.failed_by else 0
        state = replace(state, failure_streak=streak, held=state.held + 1, history=history)
        iteration = view.progress.iteration
        event = self._event(state, assessment, iteration=iteration, stage=stage, category=category)
        moved = stage + {"advance": 1, "rollback": -1}.get(event, 0)
        why = f"{event}: {self._reason(event, state, assessment, category)}"
        state = self._after(state, event, iteration)
        return Decision(
            state,
            () if moved == stage else (self.setting.to(moved),),
            why,
            self._metrics(state, moved, assessment),
        )

    def _assess(self, history: History, stage: int, category: str) -> Assessment:
        return Assessment(
            success=tuple(c.judge(history, stage=stage, category=category) for c in self.success),
            failure=tuple(c.judge(history, stage=stage, category=category) for c in self.failure),
        )

    def _event(
        self,
        state: GateState,
        assessment: Assessment,
        *,
        iteration: int,
        stage: int,
        category: str,
    ) -> Event:
        """Return the event; the order of these conditions is the logic of the gate."""
        if assessment.failed_by:
            tolerance = self._tolerance(category)
            falls = stage > 0 and 0 < tolerance <= state.failure_streak
            return "rollback" if falls else "failure_hold"
        if iteration <= self.lock_until:
            return "locked"
        if iteration < state.freeze_until:
            return "frozen"
        if assessment.blocked_by:
            return "noop"
        if state.success_streak + 1 >= self.patience and stage < self.stages - 1:
            return "advance"
        return "success_progress"

    def _tolerance(self, category: str) -> int:
        return self.tolerance_by_category.get(category, self.tolerance)

    def _after(self, state: GateState, event: Event, iteration: int) -> GateState:
        """Return the streaks and the freeze as the event leaves them."""
        match event:
            case "advance" | "rollback":
                return GateState(freeze_until=iteration + self.freeze, history=state.history)
            case "failure_hold":
                return replace(state, success_streak=0, freeze_until=iteration + self.freeze)
            case "success_progress":
                freeze_until = max(state.freeze_until, iteration + self.success_freeze)
                streak = state.success_streak + 1
                return replace(state, success_streak=streak, freeze_until=freeze_until)
            case _:
                return replace(state, success_streak=0)

    def _reason(self, event: Event, state: GateState, assessment: Assessment, category: str) -> str:
        success = f"success {state.success_streak + 1} of {self.patience}"
        tolerance = self._tolerance(category)
        failures = ", ".join(map(str, assessment.failed_by))
        reasons = {
            "rollback": f"failure {state.failure_streak} of {tolerance}, {failures}",
            "failure_hold": f"failure {state.failure_streak}, {failures}",
            "locked": f"no progress until iteration {self.lock_until} is over",
            "frozen": f"no progress before iteration {state.freeze_until}",
            "advance": success,
            "success_progress": success,
            "noop": "no failure, but no success",
        }
        blocked = ", ".join(map(str, assessment.blocked_by))
        return f"{reasons[event]}; blocked by {blocked}" if blocked else reasons[event]

    def _metrics(self, state: GateState, stage: int, assessment: Assessment) -> dict[str, float]:
        prefix = f"gate/{self.name}"
        return {
            f"{prefix}_stage": float(stage),
            f"{prefix}_success_streak": float(state.success_streak),
            f"{prefix}_failure_streak": float(state.failure_streak),
            f"{prefix}_freeze_until": float(state.freeze_until),
            f"{prefix}_held": float(state.held),
            f"{prefix}_blocked_by": float(len(assessment.blocked_by)),
            **self._missing(stage, assessment),
        }

    def _missing(self, stage: int, assessment: Assessment) -> dict[str, float]:
        """Return how far each blocking metric is from its threshold; the last stage needs none."""
        missing: dict[str, float] = {}
        for verdict in assessment.blocked_by if stage < self.stages - 1 else ():
            if verdict.value is not None:
                name = self._missing_name(verdict.metric)
                distance = abs(verdict.value - verdict.threshold)
                missing[name] = max(missing.get(name, 0.0), distance)
        return missing

    def _missing_name(self, metric: str) -> str:
        return f"gate/{self.name}_missing/{metric}"
