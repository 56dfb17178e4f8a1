"""The controllers of a fish run, and a check before it begins whether its gate can open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from longhaul.core.control import Controller
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Setting
from longhaul.schedule.criterion import Criterion
from longhaul.tasks.fish.evaluation.evaluation import find_suite
from longhaul.tasks.fish.evaluation.suites import UnavoidableDeaths, unavoidable
from longhaul.tasks.fish.options import DENSITY_PENALTY, ESCAPE_BOOST, SCHOOL_SIZE, FishOptions
from longhaul.tasks.fish.training.curriculum import (
    Curriculum,
    EscapeBoost,
    PenaltyLadder,
    ValueWindows,
)
from longhaul.tasks.fish.training.gate import (
    EARLY,
    GATE_STAGE,
    P10,
    PenaltyGate,
    first_step_metrics,
)
from longhaul.tasks.fish.training.options import BoostOptions, GateOptions
from longhaul.tasks.kind import RunPlan


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """When a run is evaluated, and what is unavoidable there."""

    iterations: tuple[int, ...]
    """The iterations after which an evaluation is due, in order."""
    bounds: tuple[UnavoidableDeaths, ...]
    """The doomed of each evaluation; a single one if the suite is always the same."""

    @property
    def interval(self) -> int:
        """Iterations between two evaluations."""
        return self.iterations[0] if self.iterations else 0


def obstacles_to(gate: PenaltyGate, options: GateOptions, plan: EvaluationPlan) -> tuple[str, ...]:
    """Return every reason why the gate cannot work; empty if it can."""
    return (
        *_contradictions(gate),
        *_short_freezes(gate, plan),
        *_too_few_evaluations(gate, plan),
        *_beyond_the_bound(gate, options, plan),
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
                    f"failure_p10 = {failure:g} is above {name}, {threshold:g}: a value between "
                    "them counts as a failure"
                )


def _short_freezes(gate: PenaltyGate, plan: EvaluationPlan) -> Iterator[str]:
    """Yield freezes that end before the next evaluation."""
    for name, length in (
        ("freeze_iterations", gate.gate.freeze),
        ("success_freeze_iterations", gate.gate.success_freeze),
    ):
        if 0 < length < plan.interval:
            yield (
                f"{name} = {length} is shorter than the {plan.interval} iterations between two "
                "evaluations, so it has no effect"
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


def _beyond_the_bound(
    gate: PenaltyGate, options: GateOptions, plan: EvaluationPlan
) -> Iterator[str]:
    """Yield limits that no policy can satisfy."""
    counted, shared = first_step_metrics(options)
    for criterion in gate.gate.success:
        if criterion.window > 1:
            continue
        for kind, threshold in _thresholds(criterion).items():
            if criterion.metric == counted and options.step_one == "all":
                counts = [float(bound.counts.sum()) for bound in plan.bounds]
                yield from _broken(_named("success_step_one", kind), threshold, counts)
            if criterion.metric == shared and options.step_one == "all":
                shares = [float(bound.doomed.mean()) for bound in plan.bounds]
                yield from _broken(_named("success_step_one_ratio", kind), threshold, shares)
            if criterion.metric == EARLY:
                shares = [float(bound.doomed.mean()) for bound in plan.bounds]
                yield from _broken(_named("success_early_death", kind), threshold, shares)
    best = [bound.best_minimum for bound in plan.bounds]
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


REHEARSAL = "rehearsal"
"""The default suite during training."""
ENT_COEF = "learn.ent_coef"


@dataclass(frozen=True, slots=True)
class Steering:
    """A run's controllers in the order they decide, their settings, and warnings."""

    controllers: tuple[Controller[Any], ...] = ()
    settings: tuple[Setting[Any], ...] = ()
    warnings: tuple[str, ...] = ()
    gate: Setting[int] | None = None


def build_steering(
    options: FishOptions, plan: RunPlan, *, tail_type: Setting[str] | None = None
) -> Steering:
    """Return the controllers of curriculum, gate, ladder, boost and entropy.

    `tail_type` names the type of an evaluation for the gate's limits by stage.
    """
    training = options.training
    curriculum = Curriculum.of(
        training.curriculum, fish=options.fish, total_iterations=plan.total_iterations
    )
    if curriculum.most_fish > options.fish:
        raise ConfigError(
            f"options.training.curriculum has {curriculum.most_fish} fish, more than "
            f"options.fish = {options.fish}, the capacity of a school"
        )
    controllers: list[Controller[Any]] = []
    if training.curriculum:
        controllers.append(curriculum.controller(replace(SCHOOL_SIZE, high=options.fish)))
    gate = _gate(options, curriculum, tail_type)
    warnings: tuple[str, ...] = ()
    if gate is not None:
        controllers.append(gate)
        warnings = _judged(gate, options, plan)
    if training.ladder.phase_targets:
        limit = None if gate is None else gate.limit
        controllers.append(PenaltyLadder(training.ladder, curriculum, DENSITY_PENALTY, limit))
    stage = None if gate is None else GATE_STAGE
    if training.boost != BoostOptions():
        setting = replace(ESCAPE_BOOST, default=options.start.escape_boost_speed)
        controllers.append(EscapeBoost(training.boost, curriculum, setting, DENSITY_PENALTY, stage))
    if training.entropy_windows:
        windows = ValueWindows("entropy", ENT_COEF, training.entropy_windows, plan.ent_coef)
        controllers.append(windows)
    settings = () if gate is None else (replace(GATE_STAGE, high=len(gate.allowance) - 1),)
    return Steering(tuple(controllers), settings, warnings, stage)


def _gate(
    options: FishOptions, curriculum: Curriculum, tail_type: Setting[str] | None
) -> PenaltyGate | None:
    training = options.training
    if not training.gate.is_on:
        return None
    if not training.ladder.phase_targets:
        raise ConfigError(
            "options.training.gate limits the penalty's ladder, and options.training.ladder has no "
            "phase_targets"
        )
    return PenaltyGate.build(
        training.gate,
        lock_until=training.ladder.lock_until,
        phases=len(curriculum.phases),
        category=tail_type,
    )


def _judged(gate: PenaltyGate, options: FishOptions, plan: RunPlan) -> tuple[str, ...]:
    """Return why the gate cannot work, or refuse it."""
    evaluated = plan.evaluated()
    if not evaluated:
        raise ConfigError(
            "options.training.gate decides after evaluations; set evaluate.every_iterations and "
            "total_iterations"
        )
    suite = plan.suite or REHEARSAL
    names = [f"{suite}-{at}" for at in evaluated] if plan.rotate else [suite]
    bounds = tuple(unavoidable(find_suite(name, options.evaluation), options) for name in names)
    reasons = obstacles_to(gate, options.training.gate, EvaluationPlan(evaluated, bounds))
    if reasons and options.training.gate.infeasible == "refuse":
        raise ConfigError(
            "options.training.gate cannot work: "
            + "; ".join(reasons)
            + "; change it, or set options.training.gate.infeasible = 'warn'"
        )
    return tuple(f"the penalty gate is infeasible: {reason}" for reason in reasons)
