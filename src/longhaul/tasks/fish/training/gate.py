"""The penalty gate: the gate of `schedule` with the fish's criteria, all of them explained."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

from longhaul.core.control import Decision, View
from longhaul.core.errors import ConfigError
from longhaul.core.metrics import Metric
from longhaul.core.settings import Assignment, Setting
from longhaul.schedule.criterion import Criterion, Limit, Verdict
from longhaul.schedule.gate import Gate, GateState
from longhaul.tasks.fish.training.options import GateOptions, lowered

WHERE = "options.training.gate"
NAME = "penalty"
PROGRESS = frozenset({"advance", "success_progress"})

GATE_STAGE: Setting[int] = Setting(
    "fish.gate_stage", 0, "Stage of the penalty gate; its allowance is the highest phase", low=0
)

EARLY, P10, MINIMUM = (
    "eval/early_death_fraction_100",
    "eval/p10",
    "eval/min_final_survival_rate",
)

METRICS = (
    Metric("gate/penalty_phase_limit", "highest phase of the ladder in use, from 1"),
    Metric("gate/penalty_failure_detected", "1 if the evaluation was a failure"),
    Metric("gate/penalty_failure_tolerance", "failures in a row after which the stage falls"),
    Metric("gate/penalty_shut", "evaluations in a row without progress"),
    Metric("gate/penalty_alarm", "1 while that is more than options.training.gate.alarm_after"),
    Metric("gate/penalty_last_success", "iteration of the last success"),
    Metric("gate/penalty_rolling_p10_median", "median of p10 that was compared"),
    Metric("gate/penalty_rolling_early_death_median", "median of early deaths that was compared"),
    Metric("gate/penalty_early_death_threshold", "limit of early deaths in force"),
    Metric("gate/penalty_early_death_window", "evaluations of that median"),
)


@dataclass(frozen=True, slots=True)
class PenaltyGateState:
    """The gate's state, evaluations without progress, and the iteration of the last success."""

    gate: GateState = field(default_factory=GateState)
    shut: int = 0
    last_success: int = 0  # iteration; 0 for none


@dataclass(frozen=True, slots=True)
class PenaltyGate:
    """Raise the highest phase of the penalty's ladder after repeated success."""

    gate: Gate
    allowance: tuple[int, ...]
    """The highest phase of each stage, from 1."""
    alarm_after: int
    name: str = "penalty-gate"

    @staticmethod
    def build(
        options: GateOptions,
        *,
        lock_until: int,
        phases: int,
        category: Setting[str] | None = None,
    ) -> PenaltyGate:
        """Return the gate these options describe."""
        allowance = options.phase_allowance
        if any(not low < high for low, high in pairwise(allowance)) or min(allowance) < 1:
            raise ConfigError(
                f"{WHERE}.phase_allowance = {list(allowance)} must be phases from 1 that ascend"
            )
        if max(allowance) > phases:
            raise ConfigError(
                f"{WHERE}.phase_allowance: there is no phase {max(allowance)} of {phases}"
            )
        gate = Gate(
            NAME,
            GATE_STAGE,
            stages=len(allowance),
            success=success_criteria(options),
            failure=(
                Criterion(P10, "<", options.failure_p10),
                Criterion(MINIMUM, "<", options.failure_min_final),
            ),
            patience=options.required_successes,
            tolerance=options.failure_tolerance,
            tolerance_by_category=lowered(options.failure_tolerance_by_stage),
            freeze=options.freeze_iterations,
            success_freeze=options.success_freeze_iterations,
            lock_until=options.lock_iteration if options.lock_iteration > 0 else lock_until,
            category=category,
        )
        return PenaltyGate(gate, allowance, options.alarm_after)

    @property
    def limit(self) -> Limit:
        """The cap on the ladder's phase that goes with the gate's stage."""
        return Limit(self.gate.setting, tuple(phase - 1 for phase in self.allowance))

    @property
    def reads(self) -> tuple[str, ...]:
        """The metrics of an evaluation.

        The type of the tail's stage is not among them: the gate needs its value during the
        iteration, before the queue that writes it moves on.
        """
        category = self.gate.category
        return tuple(name for name in self.gate.reads if category is None or name != category.name)

    @property
    def writes(self) -> tuple[str, ...]:
        """The stage."""
        return self.gate.writes

    @property
    def emits(self) -> tuple[str, ...]:
        """The gate's metrics."""
        return (*self.gate.emits, *(metric.name for metric in METRICS))

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """The outermost stages."""
        return self.gate.extremes

    def initial(self) -> PenaltyGateState:
        """Return the state before the first evaluation."""
        return PenaltyGateState()

    def decide(self, state: PenaltyGateState, view: View) -> Decision[PenaltyGateState]:
        """Judge an evaluation, move the stage by at most one, and explain every criterion."""
        before = view.settings[self.gate.setting]
        decision = self.gate.decide(state.gate, view)
        if not decision.why:
            return Decision(state)
        event = decision.why.partition(":")[0]
        category = "" if self.gate.category is None else view.settings[self.gate.category]
        verdicts = self._verdicts(decision.state, before, category)
        passed = all(verdict.holds for verdict in verdicts[: len(self.gate.success)])
        failed = decision.state.failure_streak > 0 or event == "rollback"
        top = self.gate.stages - 1
        shut = 0 if event in PROGRESS or before == top else state.shut + 1
        iteration = view.progress.iteration
        is_success = passed and not failed
        state = PenaltyGateState(
            decision.state, shut, iteration if is_success else state.last_success
        )
        stage = decision.assignments[0].value if decision.assignments else before
        assert isinstance(stage, int)
        metrics = {
            **decision.metrics,
            **self._metrics(state, stage=stage, category=category, verdicts=verdicts),
            "gate/penalty_failure_detected": float(failed),
        }
        return Decision(
            state, decision.assignments, self._why(decision.why, verdicts, state), metrics
        )

    def _verdicts(self, state: GateState, stage: int, category: str) -> tuple[Verdict, ...]:
        return tuple(
            criterion.judge(state.history, stage=stage, category=category)
            for criterion in self.gate.criteria
        )

    def _why(self, why: str, verdicts: tuple[Verdict, ...], state: PenaltyGateState) -> str:
        """Return the event with every criterion, and the alarm with those that block."""
        needed = len(self.gate.success)
        explained = [f"success if {verdict}" for verdict in verdicts[:needed]]
        explained += [f"failure if {verdict}" for verdict in verdicts[needed:]]
        text = f"{why.partition(';')[0]}; {'; '.join(explained)}"
        if state.shut > self.alarm_after:
            blocking = [str(v) for v in verdicts[:needed] if not v.holds]
            blocking += [str(v) for v in verdicts[needed:] if v.holds]
            reason = " and ".join(blocking) or "the lock or a freeze"
            text += f"; ALARM: shut for {state.shut} evaluations by {reason}"
        return text

    def _metrics(
        self,
        state: PenaltyGateState,
        *,
        stage: int,
        category: str,
        verdicts: tuple[Verdict, ...],
    ) -> dict[str, float]:
        tolerance = self.gate.tolerance_by_category.get(category, self.gate.tolerance)
        metrics = {
            "gate/penalty_phase_limit": float(self.allowance[stage]),
            "gate/penalty_failure_tolerance": float(tolerance),
            "gate/penalty_shut": float(state.shut),
            "gate/penalty_alarm": float(state.shut > self.alarm_after),
        }
        if state.last_success:
            metrics["gate/penalty_last_success"] = float(state.last_success)
        for verdict in verdicts[: len(self.gate.success)]:
            if verdict.metric == EARLY:
                metrics["gate/penalty_early_death_threshold"] = verdict.threshold
                metrics["gate/penalty_early_death_window"] = float(verdict.window)
            if verdict.window == 1 or verdict.value is None:
                continue
            if verdict.metric == P10:
                metrics["gate/penalty_rolling_p10_median"] = verdict.value
            if verdict.metric == EARLY:
                metrics["gate/penalty_rolling_early_death_median"] = verdict.value
        return metrics


def success_criteria(options: GateOptions) -> tuple[Criterion, ...]:
    """Return what must all hold for a success."""
    counted, shared = first_step_metrics(options)
    by_type = lowered(options.success_step_one_by_stage)
    criteria = [Criterion(counted, "<=", options.success_step_one, by_category={**by_type})]
    ratios = lowered(options.success_step_one_ratio_by_stage)
    if options.success_step_one_ratio > 0 or ratios:
        ratio = options.success_step_one_ratio or 1.0
        criteria.append(Criterion(shared, "<=", ratio, by_category=ratios))
    early = lowered(options.success_early_death_by_stage)
    windows = lowered(options.success_early_death_window_by_stage)
    instant = Criterion(EARLY, "<=", options.success_early_death, by_category=early)
    criteria.append(instant)
    if options.success_early_death_window > 1 or any(w > 1 for w in windows.values()):
        # A window of 1 adds nothing to the criterion on the value itself.
        longer = {name: window for name, window in windows.items() if window > 1}
        window = max(options.success_early_death_window, 1)
        criteria.append(replace(instant, window=window, window_by_category=longer))
    p10 = lowered(options.success_first_death_p10_by_stage)
    if options.success_p10 > 0 or p10:
        criteria.append(
            Criterion(
                P10,
                ">=",
                options.success_p10,
                window=options.success_median_window,
                by_category=p10,
                window_by_category=lowered(options.success_p10_median_window_by_stage),
                overall_until_full=True,
            )
        )
    return tuple(criteria)


def first_step_metrics(options: GateOptions) -> tuple[str, str]:
    """Return the metrics of the deaths in the first step: their number and their share."""
    if options.step_one == "excess":
        return "eval/step_one_excess", "eval/step_one_excess_ratio"
    return "eval/step_one_death_count", "eval/step_one_death_ratio"
