"""The controllers of a fish run, put together from its options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from longhaul.core.control import Controller
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Setting
from longhaul.tasks.fish.boost import EscapeBoost
from longhaul.tasks.fish.curriculum import Curriculum
from longhaul.tasks.fish.evaluation import find_suite
from longhaul.tasks.fish.feasibility import EvaluationPlan, obstacles_to
from longhaul.tasks.fish.floor import unavoidable
from longhaul.tasks.fish.gate import GATE_STAGE, PenaltyGate
from longhaul.tasks.fish.ladder import PenaltyLadder
from longhaul.tasks.fish.options import DENSITY_PENALTY, ESCAPE_BOOST, SCHOOL_SIZE, Options
from longhaul.tasks.fish.schedule_options import BoostOptions
from longhaul.tasks.fish.windows import Windows, parse_windows
from longhaul.tasks.kind import RunPlan

REHEARSAL = "rehearsal"
"""The suite that is played while training, unless another one is asked for."""
ENTROPY_WEIGHT = "learn.entropy_weight"


@dataclass(frozen=True, slots=True)
class Steering:
    """A run's controllers in the order they decide, their settings, and what is wrong with them."""

    controllers: tuple[Controller[Any], ...] = ()
    settings: tuple[Setting[Any], ...] = ()
    warnings: tuple[str, ...] = ()
    gate: Setting[int] | None = None


def build_steering(
    options: Options, plan: RunPlan, *, tail_type: Setting[str] | None = None
) -> Steering:
    """Return the controllers of curriculum, gate, ladder, boost and entropy.

    `tail_type` names the type of an evaluation for the gate's limits by stage.
    """
    training = options.training
    curriculum = Curriculum.parse(
        training.curriculum, fish=options.fish, total_iterations=plan.total_iterations
    )
    if curriculum.most_fish > options.fish:
        raise ConfigError(
            f"options.training.curriculum has {curriculum.most_fish} fish, more than "
            f"options.fish = {options.fish}, which is the room a school has"
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
        where = "options.training.entropy_windows"
        windows = parse_windows(training.entropy_windows, where=where)
        controllers.append(Windows("entropy", ENTROPY_WEIGHT, windows, plan.entropy_weight))
    settings = () if gate is None else (replace(GATE_STAGE, high=len(gate.allowance) - 1),)
    return Steering(tuple(controllers), settings, warnings, stage)


def _gate(
    options: Options, curriculum: Curriculum, tail_type: Setting[str] | None
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


def _judged(gate: PenaltyGate, options: Options, plan: RunPlan) -> tuple[str, ...]:
    """Return why the gate cannot work, or refuse it for that."""
    evaluated = plan.evaluated()
    if not evaluated:
        raise ConfigError(
            "options.training.gate decides after evaluations; set evaluate.every_iterations and "
            "total_iterations"
        )
    suite = plan.suite or REHEARSAL
    names = [f"{suite}-{at}" for at in evaluated] if plan.rotate else [suite]
    floors = tuple(unavoidable(find_suite(name), options) for name in names)
    reasons = obstacles_to(gate, options.training.gate, EvaluationPlan(evaluated, floors))
    if reasons and options.training.gate.infeasible == "refuse":
        raise ConfigError(
            "options.training.gate can never do its work: "
            + "; ".join(reasons)
            + "; change it, or set options.training.gate.infeasible = 'warn'"
        )
    return tuple(f"the penalty gate is infeasible: {reason}" for reason in reasons)
