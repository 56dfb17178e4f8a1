"""Whether a penalty gate can ever open, asked before the run begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from longhaul.schedule.criterion import Criterion
from longhaul.tasks.fish.floor import Floor
from longhaul.tasks.fish.gate import EARLY, P10, PenaltyGate, step_one_metrics
from longhaul.tasks.fish.schedule_options import GateOptions


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """When a run is evaluated, and what is unavoidable there."""

    iterations: tuple[int, ...]
    """The iterations after which an evaluation is due, in order."""
    floors: tuple[Floor, ...]
    """The doomed of each evaluation; a single one if the suite is always the same."""

    @property
    def interval(self) -> int:
        """Iterations between two evaluations."""
        return self.iterations[0] if self.iterations else 0


def obstacles_to(gate: PenaltyGate, options: GateOptions, plan: EvaluationPlan) -> tuple[str, ...]:
    """Return every reason why the gate cannot do what it is made for, in words; none is best."""
    return (
        *_contradictions(gate),
        *_toothless_freezes(gate, plan),
        *_too_few_evaluations(gate, plan),
        *_below_the_floor(gate, options, plan),
    )


def _thresholds(criterion: Criterion) -> dict[str, float]:
    """Return a criterion's limits by the type they hold for; the empty name is all others."""
    return {"": criterion.threshold, **criterion.by_category}


def _named(name: str, kind: str) -> str:
    return f"{name} for type {kind!r}" if kind else name


def _contradictions(gate: PenaltyGate) -> Iterator[str]:
    """Yield limits at which one evaluation would be a success and a failure at once."""
    failure = next(c.threshold for c in gate.gate.failure if c.metric == P10)
    for criterion in gate.gate.success:
        if criterion.metric != P10:
            continue
        for kind, threshold in _thresholds(criterion).items():
            if failure > threshold:
                name = _named("the p10 that is a success", kind)
                yield (
                    f"failure_p10 = {failure:g} is above {name}, {threshold:g}: whatever lies "
                    "between counts as a failure"
                )


def _toothless_freezes(gate: PenaltyGate, plan: EvaluationPlan) -> Iterator[str]:
    """Yield freezes that are over before anybody looks."""
    for name, length in (
        ("freeze_iterations", gate.gate.freeze),
        ("success_freeze_iterations", gate.gate.success_freeze),
    ):
        if 0 < length < plan.interval:
            yield (
                f"{name} = {length} is shorter than the {plan.interval} iterations between two "
                "evaluations, so that it never holds anything back"
            )


def _too_few_evaluations(gate: PenaltyGate, plan: EvaluationPlan) -> Iterator[str]:
    """Yield the shortage if the run ends before all stages can have been climbed."""
    usable = [iteration for iteration in plan.iterations if iteration > gate.gate.lock_until]
    climbs = gate.gate.stages - 1
    needed = climbs * gate.gate.patience
    if len(usable) < needed:
        yield (
            f"{len(usable)} evaluations are left after the lock at iteration "
            f"{gate.gate.lock_until}, and {climbs} stages need {needed} successes"
        )
        return
    reached = _fastest_climb(gate, usable, known=len(plan.iterations) - len(usable))
    if reached < climbs:
        yield (
            f"even if every evaluation after iteration {gate.gate.lock_until} is a success, the "
            f"freezes and windows let the gate climb {reached} of {climbs} stages"
        )


def _fastest_climb(gate: PenaltyGate, usable: Sequence[int], *, known: int) -> int:
    """Return how many stages a run climbs whose every evaluation is a success."""
    widest = max(criterion.window for criterion in gate.gate.success)
    stage, streak, freeze_until = 0, 0, 0
    for number, iteration in enumerate(usable, start=known + 1):
        if iteration < freeze_until:
            streak = 0
            continue
        if number < widest:
            streak = 0
            continue
        streak += 1
        freeze_until = iteration + gate.gate.success_freeze
        if streak >= gate.gate.patience:
            stage, streak, freeze_until = stage + 1, 0, iteration + gate.gate.freeze
    return min(stage, gate.gate.stages - 1)


def _below_the_floor(
    gate: PenaltyGate, options: GateOptions, plan: EvaluationPlan
) -> Iterator[str]:
    """Yield limits that not even the best policy could keep."""
    counted, shared = step_one_metrics(options)
    for criterion in gate.gate.success:
        if criterion.window > 1:
            continue
        for kind, threshold in _thresholds(criterion).items():
            if criterion.metric == counted and options.step_one == "all":
                counts = [float(floor.counts.sum()) for floor in plan.floors]
                yield from _broken(_named("success_step_one", kind), threshold, counts)
            if criterion.metric == shared and options.step_one == "all":
                shares = [float(floor.doomed.mean()) for floor in plan.floors]
                yield from _broken(_named("success_step_one_ratio", kind), threshold, shares)
            if criterion.metric == EARLY:
                shares = [float(floor.doomed.mean()) for floor in plan.floors]
                yield from _broken(_named("success_early_death", kind), threshold, shares)
    best = [floor.best_minimum for floor in plan.floors]
    doomed = [value for value in best if value < options.failure_min_final]
    if doomed:
        yield (
            f"failure_min_final = {options.failure_min_final:g} is above the best worst episode "
            f"in {len(doomed)} of {len(best)} evaluations ({min(best):.4f} at the lowest)"
        )


def _broken(name: str, threshold: float, unavoidable: Sequence[float]) -> Iterator[str]:
    above = [value for value in unavoidable if value > threshold]
    if above:
        yield (
            f"{name} = {threshold:g} is below the unavoidable number in {len(above)} of "
            f"{len(unavoidable)} evaluations (up to {max(above):.4g})"
        )
