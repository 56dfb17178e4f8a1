from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from longhaul.core.control import Decision, Progress, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.schedule.criterion import Criterion
from longhaul.schedule.gate import Gate, GateState
from tests.schedule.examples import CATEGORY, STAGE

P10, EARLY, STEP_ONE, RATIO, MIN_FINAL = (
    "eval/first_death_p10",
    "eval/early_death_100",
    "eval/step_one",
    "eval/step_one_ratio",
    "eval/min_final",
)
FISH = 1152

FISH_GATE = Gate(
    "penalty",
    STAGE,
    stages=4,
    success=(
        Criterion(STEP_ONE, "<=", 18),
        Criterion(RATIO, "<=", 0.02),
        Criterion(EARLY, "<=", 0.10),
        Criterion(EARLY, "<=", 0.10, window=3),
        Criterion(P10, ">=", 70, window=4),
    ),
    failure=(Criterion(P10, "<", 95), Criterion(MIN_FINAL, "<", 0.5)),
    patience=2,
    tolerance=2,
    freeze=5,
    success_freeze=2,
    lock_until=28,
)
"""The penalty gate of the fish laboratory with the thresholds of its version 38."""


class Run:
    """A gate told one evaluation after another."""

    def __init__(self, gate: Gate, *, stage: int = 0) -> None:
        self.gate = gate
        self.state = gate.initial()
        self.settings = Settings([STAGE, CATEGORY], {STAGE.name: stage})

    def evaluate(
        self, iteration: int, metrics: dict[str, float], *, category: str = ""
    ) -> Decision[GateState]:
        settings = self.settings.with_([CATEGORY.to(category)])
        decision = self.gate.decide(self.state, View(Progress(iteration), metrics, settings))
        self.state, self.settings = decision.state, settings.with_(decision.assignments)
        return decision

    @property
    def stage(self) -> int:
        return self.settings[STAGE]


def fish(step_one: int, early: float, p10: float, min_final: float) -> dict[str, float]:
    return {
        STEP_ONE: step_one,
        RATIO: step_one / FISH,
        EARLY: early,
        P10: p10,
        MIN_FINAL: min_final,
    }


def event(decision: Decision[Any]) -> str:
    return decision.why.partition(":")[0]


def test_the_recorded_run_of_version_38_is_replayed_exactly() -> None:
    run = Run(FISH_GATE)
    table = [
        (8, 0.552, 0.1363, 25, 70.0, None, None, 1, 13),
        (16, 0.281, 0.1667, 22, 65.1, None, None, 2, 21),
        (24, 0.250, 0.1406, 19, 64.0, None, 0.1406, 3, 29),
        (32, 0.583, 0.1345, 29, 58.0, 64.55, 0.1406, 4, 37),
        (40, 0.385, 0.1146, 16, 76.0, 64.55, 0.1345, 5, 45),
        (48, 0.531, 0.1128, 24, 81.0, 70.0, 0.1146, 6, 53),
        (56, 0.510, 0.1623, 29, 68.1, 72.05, 0.1146, 7, 61),
    ]
    for (
        iteration,
        min_final,
        early,
        step_one,
        p10,
        p10_median,
        early_median,
        fails,
        freeze,
    ) in table:
        decision = run.evaluate(iteration, fish(step_one, early, p10, min_final))
        assert event(decision) == "failure_hold"
        assert (run.state.failure_streak, run.state.freeze_until, run.stage) == (fails, freeze, 0)
        for criterion, expected in (
            (FISH_GATE.success[4], p10_median),
            (FISH_GATE.success[3], early_median),
        ):
            value = criterion.judge(run.state.history, stage=0, category="").value
            assert value == (None if expected is None else pytest.approx(expected))


def test_the_golden_sequence_is_replayed_exactly() -> None:
    run = Run(FISH_GATE)
    good = (10, 0.08, 150, 0.8)
    table = [
        (8, (10, 0.08, 120, 0.8), "locked", 0, 0, 0),
        (16, (10, 0.08, 130, 0.8), "locked", 0, 0, 0),
        (24, (10, 0.08, 140, 0.8), "locked", 0, 0, 0),
        (32, good, "success_progress", 0, 1, 34),
        (34, good, "advance", 1, 0, 39),
        (40, good, "success_progress", 1, 1, 42),
        (44, good, "advance", 2, 0, 49),
        (48, good, "frozen", 2, 0, 49),
        (56, (12, 0.09, 140, 0.8), "success_progress", 2, 1, 58),
        (64, (12, 0.12, 90, 0.6), "failure_hold", 2, 0, 69),
        (72, (12, 0.12, 90, 0.6), "rollback", 1, 0, 77),
        (80, (30, 0.08, 150, 0.8), "noop", 1, 0, 77),
        (88, good, "success_progress", 1, 1, 90),
        (96, (10, 0.08, 150, 0.45), "failure_hold", 1, 0, 101),
        (104, (10, 0.08, 150, 0.45), "rollback", 0, 0, 109),
    ]
    for iteration, values, expected, stage, streak, freeze in table:
        decision = run.evaluate(iteration, fish(*values))
        assert (event(decision), run.stage) == (expected, stage)
        assert (run.state.success_streak, run.state.freeze_until) == (streak, freeze)
        assert decision.metrics["gate/penalty_stage"] == stage


def test_a_decision_names_the_blocking_criterion_with_value_and_threshold() -> None:
    run = Run(replace(FISH_GATE, lock_until=0))
    decision = run.evaluate(8, fish(30, 0.08, 150, 0.8))
    assert decision.why == (
        "noop: no failure, but no success; blocked by eval/step_one = 30 is not <= 18, "
        "eval/step_one_ratio = 0.02604 is not <= 0.02, "
        "median of 3 eval/early_death_100 not known yet, <= 0.1 needed, "
        "median of 4 eval/first_death_p10 not known yet, >= 70 needed"
    )
    assert decision.metrics["gate/penalty_blocked_by"] == 4


def test_a_skipped_evaluation_keeps_the_streak() -> None:
    gate = Gate("g", STAGE, stages=4, success=(Criterion(P10, ">=", 70),), patience=2)
    run = Run(gate)
    run.evaluate(1, {P10: 80})
    skipped = run.evaluate(2, {EARLY: 0.5})
    assert (skipped.why, skipped.metrics) == ("", {})
    assert event(run.evaluate(3, {P10: 80})) == "advance"


def test_half_an_evaluation_is_no_news() -> None:
    run = Run(FISH_GATE)
    metrics = fish(10, 0.08, 150, 0.8)
    del metrics[MIN_FINAL]
    assert run.evaluate(40, metrics) == Decision(GateState())


def test_thresholds_may_rise_with_the_stage() -> None:
    rising = Criterion(P10, ">=", 50, by_stage=(50, 100))
    run = Run(Gate("g", STAGE, stages=4, success=(rising,)))
    assert event(run.evaluate(1, {P10: 80})) == "advance"
    assert event(run.evaluate(2, {P10: 80})) == "noop"
    assert event(run.evaluate(3, {P10: 120})) == "advance"
    assert event(run.evaluate(4, {P10: 120})) == "advance"
    assert event(run.evaluate(5, {P10: 120})) == "success_progress"
    assert run.stage == 3


def test_a_category_has_its_own_threshold() -> None:
    criterion = Criterion(EARLY, "<=", 0.10, by_category={"ne": 0.13})
    gate = Gate("g", STAGE, stages=4, success=(criterion,), category=CATEGORY)
    assert event(Run(gate).evaluate(1, {EARLY: 0.12}, category="ne")) == "advance"
    assert event(Run(gate).evaluate(1, {EARLY: 0.12}, category="main")) == "noop"


def test_a_category_with_a_window_is_judged_by_its_own_evaluations() -> None:
    criterion = Criterion(EARLY, "<=", 0.10, window_by_category={"main": 2})
    run = Run(Gate("g", STAGE, stages=4, success=(criterion,), category=CATEGORY))
    assert event(run.evaluate(1, {EARLY: 0.05}, category="main")) == "noop"
    assert event(run.evaluate(2, {EARLY: 0.90}, category="ne")) == "noop"
    assert event(run.evaluate(3, {EARLY: 0.06}, category="main")) == "advance"


def test_all_evaluations_may_stand_in_until_a_category_has_its_own() -> None:
    criterion = Criterion(
        P10, ">=", 100, window=2, window_by_category={"main": 2}, overall_until_full=True
    )
    run = Run(Gate("g", STAGE, stages=4, success=(criterion,), category=CATEGORY))
    assert event(run.evaluate(1, {P10: 150}, category="ne")) == "noop"
    assert event(run.evaluate(2, {P10: 90}, category="main")) == "advance"
    assert event(run.evaluate(3, {P10: 90}, category="main")) == "noop"


def test_a_category_has_its_own_tolerance() -> None:
    failure = (Criterion(P10, "<", 95),)
    success = (Criterion(P10, ">=", 95),)
    gate = Gate(
        "g",
        STAGE,
        stages=4,
        success=success,
        failure=failure,
        tolerance=1,
        tolerance_by_category={"main": 2},
        category=CATEGORY,
    )
    assert event(Run(gate, stage=2).evaluate(1, {P10: 10}, category="ne")) == "rollback"
    patient = Run(gate, stage=2)
    assert event(patient.evaluate(1, {P10: 10}, category="main")) == "failure_hold"
    assert event(patient.evaluate(2, {P10: 10}, category="main")) == "rollback"


def test_without_tolerance_the_stage_never_falls() -> None:
    gate = Gate(
        "g",
        STAGE,
        stages=4,
        success=(Criterion(P10, ">=", 95),),
        failure=(Criterion(P10, "<", 95),),
        tolerance=0,
    )
    run = Run(gate, stage=2)
    assert {event(run.evaluate(k, {P10: 10})) for k in range(1, 9)} == {"failure_hold"}
    assert run.state.held == 8


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"success": ()}, "no success criterion"),
        ({"stages": 1}, r"schedule\.penalty\.stages = 1"),
        ({"patience": 0}, r"schedule\.penalty\.patience = 0"),
        ({"freeze": -1}, "at least 0"),
    ],
)
def test_impossible_gates_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(FISH_GATE, **fields)


def test_a_window_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="'eval/early_death_100' has a window below 1"):
        Criterion(EARLY, "<=", 0.1, window_by_category={"main": 0})
