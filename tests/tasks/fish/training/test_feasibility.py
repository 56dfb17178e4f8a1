"""Row 13 of the checklist: gates that cannot open are found before the run, with the reasons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from longhaul.core.errors import ConfigError
from longhaul.tasks.fish.options import FishOptions
from longhaul.tasks.fish.training.controllers import Steering, build_steering
from longhaul.tasks.fish.training.options import GateOptions, SchoolPhase, TrainingOptions
from longhaul.tasks.kind import RunPlan
from tests.tasks.fish.laboratory import BOOST, CURRICULUM, GATE, ITERATIONS, LADDER

RECORDED = RunPlan(total_iterations=ITERATIONS, evaluate_every=8, suite="v38", rotate=True)
REASONS = (
    "failure_p10 = 95 is above the p10 that is a success, 70",
    "freeze_iterations = 5 is shorter than the 8 iterations between two evaluations",
    "4 evaluations are left after the lock at iteration 28, and 3 stages need 6 successes",
    "success_step_one = 18 is below the unavoidable number in 5 of 7 evaluations",
    "success_step_one_ratio = 0.02 is below the unavoidable number in 2 of 7 evaluations",
)


def steering(gate: GateOptions, plan: RunPlan = RECORDED) -> Steering:
    training = TrainingOptions(curriculum=CURRICULUM, ladder=LADDER, boost=BOOST, gate=gate)
    return build_steering(FishOptions(training=training), plan)


def test_the_reference_runs_gate_is_refused_with_every_reason() -> None:
    with pytest.raises(ConfigError) as refused:
        steering(GATE)
    for reason in REASONS:
        assert reason in str(refused.value)
    assert "options.training.gate" in str(refused.value)


def test_it_may_be_used_all_the_same_with_a_warning() -> None:
    built = steering(replace(GATE, infeasible="warn"))
    assert [c.name for c in built.controllers] == [
        "curriculum",
        "penalty-gate",
        "penalty-ladder",
        "escape-boost",
    ]
    assert all(any(reason in warning for warning in built.warnings) for reason in REASONS)


FEASIBLE = GateOptions(
    phase_allowance=(4, 5, 6, 7),
    required_successes=1,
    lock_iteration=8,
    freeze_iterations=8,
    success_freeze_iterations=0,
    success_step_one=20,
    success_p10=120,
    success_median_window=2,
)


def test_a_feasible_gate_is_built_without_a_word() -> None:
    plan = replace(RECORDED, suite="rehearsal", rotate=False)
    assert steering(FEASIBLE, plan).warnings == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"failure_p10": 121}, "failure_p10 = 121 is above"),
        ({"success_first_death_p10_by_stage": {"ne": 90}}, "success for type 'ne', 90"),
        ({"freeze_iterations": 16, "required_successes": 2}, "climb 2 of 3 stages"),
        ({"lock_iteration": 48}, "1 evaluations are left after the lock at iteration 48"),
        ({"success_early_death": 0.01}, "success_early_death = 0.01 is below the unavoidable"),
        ({"failure_min_final": 0.95}, "failure_min_final = 0.95 is above the best worst episode"),
        ({"step_one": "all", "success_step_one": 3}, "success_step_one = 3 is below"),
        ({"success_median_window": 7}, "climb 1 of 3 stages"),
    ],
)
def test_what_makes_it_infeasible_is_named(changes: dict[str, Any], reason: str) -> None:
    plan = replace(RECORDED, suite="rehearsal", rotate=False)
    warned = steering(replace(FEASIBLE, infeasible="warn", **changes), plan).warnings
    assert any(reason in warning for warning in warned), warned


def test_a_gate_needs_evaluations_and_a_ladder() -> None:
    with pytest.raises(ConfigError, match=r"set evaluate\.every_iterations"):
        steering(FEASIBLE, replace(RECORDED, evaluate_every=0))
    with pytest.raises(ConfigError, match="has no phase_targets"):
        build_steering(FishOptions(training=TrainingOptions(gate=FEASIBLE)), RECORDED)


def test_a_curriculum_must_fit_into_the_school() -> None:
    training = TrainingOptions(curriculum=(SchoolPhase(30, 60),))
    with pytest.raises(ConfigError, match=r"30 fish, more than options\.fish = 25"):
        build_steering(FishOptions(training=training), RECORDED)
