"""Row 12 of the checklist: both worked examples replayed, and every override by stage."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from longhaul.core.control import Decision, Progress, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Setting, Settings
from longhaul.tasks.fish.training.gate import GATE_STAGE, PenaltyGate, PenaltyGateState
from longhaul.tasks.fish.training.options import GateOptions
from tests.tasks.fish.laboratory import FISH, GATE

TYPE: Setting[str] = Setting("fish.tail_type", "", "type of the tail's stage")
GOOD = (10, 0.08, 150.0, 0.8)


class Told:
    """A gate told one evaluation after another."""

    def __init__(self, options: GateOptions = GATE, *, stage: int = 0, lock: int = 28) -> None:
        self.gate = PenaltyGate.build(options, lock_until=lock, phases=7, category=TYPE)
        self.state = self.gate.initial()
        self.settings = Settings([GATE_STAGE, TYPE], {GATE_STAGE.name: stage})

    def evaluate(
        self, iteration: int, figures: tuple[float, float, float, float], kind: str = "main"
    ) -> Decision[PenaltyGateState]:
        step_one, early, p10, minimum = figures
        metrics = {
            "eval/step_one_death_count": float(step_one),
            "eval/step_one_death_ratio": step_one / FISH,
            "eval/step_one_excess": float(step_one),
            "eval/step_one_excess_ratio": step_one / FISH,
            "eval/early_death_fraction_100": early,
            "eval/p10": p10,
            "eval/min_final_survival_rate": minimum,
        }
        settings = self.settings.with_([TYPE.to(kind)])
        decision = self.gate.decide(self.state, View(Progress(iteration), metrics, settings))
        self.state, self.settings = decision.state, settings.with_(decision.assignments)
        return decision

    def event(self, *evaluation: Any) -> str:
        return self.evaluate(*evaluation).why.partition(":")[0]

    @property
    def stage(self) -> int:
        return self.settings[GATE_STAGE]


def test_the_reference_run_is_replayed_exactly() -> None:
    told = Told()
    table = [
        (8, "ne", 0.552, 0.1363, 25, 70.0, None, None, 1, 13),
        (16, "main", 0.281, 0.1667, 22, 65.1, None, None, 2, 21),
        (24, "main", 0.250, 0.1406, 19, 64.0, None, 0.1406, 3, 29),
        (32, "main", 0.583, 0.1345, 29, 58.0, 64.55, 0.1406, 4, 37),
        (40, "main", 0.385, 0.1146, 16, 76.0, 64.55, 0.1345, 5, 45),
        (48, "main", 0.531, 0.1128, 24, 81.0, 70.0, 0.1146, 6, 53),
        (56, "main", 0.510, 0.1623, 29, 68.1, 72.05, 0.1146, 7, 61),
    ]
    for iteration, kind, minimum, early, one, p10, p10_median, early_median, fails, freeze in table:
        decision = told.evaluate(iteration, (one, early, p10, minimum), kind)
        assert decision.why.startswith("failure_hold")
        assert told.stage == 0
        state = told.state.gate
        assert (state.failure_streak, state.freeze_until) == (fails, freeze)
        metrics = decision.metrics
        for name, expected in (
            ("gate/penalty_rolling_p10_median", p10_median),
            ("gate/penalty_rolling_early_death_median", early_median),
        ):
            found = metrics.get(name)
            assert found is None if expected is None else found == pytest.approx(expected)
        assert metrics["gate/penalty_failure_detected"] == 1.0
        assert metrics["gate/penalty_phase_limit"] == 4


def test_the_golden_sequence_is_replayed_exactly() -> None:
    told = Told()
    table = [
        (8, (10, 0.08, 120, 0.8), "locked", 0, 0, 0),
        (16, (10, 0.08, 130, 0.8), "locked", 0, 0, 0),
        (24, (10, 0.08, 140, 0.8), "locked", 0, 0, 0),
        (32, GOOD, "success_progress", 0, 1, 34),
        (34, GOOD, "advance", 1, 0, 39),
        (40, GOOD, "success_progress", 1, 1, 42),
        (44, GOOD, "advance", 2, 0, 49),
        (48, GOOD, "frozen", 2, 0, 49),
        (56, (12, 0.09, 140, 0.8), "success_progress", 2, 1, 58),
        (64, (12, 0.12, 90, 0.6), "failure_hold", 2, 0, 69),
        (72, (12, 0.12, 90, 0.6), "rollback", 1, 0, 77),
        (80, (30, 0.08, 150, 0.8), "noop", 1, 0, 77),
        (88, GOOD, "success_progress", 1, 1, 90),
        (96, (10, 0.08, 150, 0.45), "failure_hold", 1, 0, 101),
        (104, (10, 0.08, 150, 0.45), "rollback", 0, 0, 109),
    ]
    for iteration, figures, event, stage, streak, freeze in table:
        assert told.event(iteration, figures) == event
        state = told.state.gate
        assert (told.stage, state.success_streak, state.freeze_until) == (stage, streak, freeze)


def opened(**changes: Any) -> Told:
    """Return a gate without a lock, one success per stage, and nothing over several evaluations."""
    plain = {
        "required_successes": 1,
        "freeze_iterations": 0,
        "success_freeze_iterations": 0,
        "success_early_death_window": 1,
        "success_median_window": 1,
    }
    return Told(replace(GATE, **{**plain, **changes}), lock=0)


def test_early_deaths_have_a_limit_by_stage_type() -> None:
    told = opened(success_early_death_by_stage={"ne": 0.13, "Main": 0.10})
    assert told.event(8, (10, 0.12, 150, 0.8), "main") == "noop"
    assert told.event(16, (10, 0.12, 150, 0.8), "ne") == "advance"


def test_early_deaths_have_a_window_by_stage_type() -> None:
    told = opened(success_early_death_window_by_stage={"main": 4})
    assert [told.event(8 * n, GOOD, "main") for n in range(1, 5)] == ["noop"] * 3 + ["advance"]
    assert opened(success_early_death_window_by_stage={"main": 4}).event(8, GOOD, "ne") == "advance"


def test_a_types_window_counts_its_own_evaluations_only() -> None:
    told = opened(success_early_death_window_by_stage={"main": 2})
    told.event(8, GOOD, "main")
    for iteration in (16, 24, 32):
        told.event(iteration, (10, 0.12, 150, 0.8), "ne")
    assert told.event(40, GOOD, "main") == "advance"


def test_failures_are_tolerated_by_stage_type() -> None:
    bad = (10, 0.08, 90, 0.8)
    told = Told(replace(GATE, failure_tolerance_by_stage={"main": 3}), stage=2)
    events = [told.event(8 * n, bad, "main") for n in (1, 2, 3)]
    assert events == ["failure_hold", "failure_hold", "rollback"]
    told = Told(replace(GATE, failure_tolerance_by_stage={"main": 3}), stage=2)
    assert [told.event(8 * n, bad, "ne") for n in (1, 2)] == ["failure_hold", "rollback"]
    assert told.gate.gate.tolerance_by_category == {"main": 3}


def test_p10_has_a_limit_by_stage_type() -> None:
    told = opened(success_first_death_p10_by_stage={"main": 160})
    assert told.event(8, GOOD, "main") == "noop"
    assert told.event(16, GOOD, "ne") == "advance"


def test_p10_has_a_window_by_stage_type_with_the_overall_one_until_it_is_full() -> None:
    told = opened(success_p10_median_window_by_stage={"main": 3}, success_median_window=2)
    high, low = GOOD, (10, 0.08, 96.0, 0.8)
    told = opened(
        success_p10_median_window_by_stage={"main": 3}, success_median_window=2, success_p10=100
    )
    assert told.event(8, high, "ne") == "noop", "no median of two yet"
    assert told.event(16, high, "main") == "advance", "the median over all types"
    told.event(24, low, "main")
    told.event(32, high, "ne")
    assert told.event(40, low, "main") == "noop", "its own median of 150, 96, 96 is 96"


def test_step_one_deaths_have_a_limit_by_stage_type() -> None:
    told = opened(success_step_one_by_stage={"main": 45}, success_step_one_ratio=0.0)
    assert told.event(8, (40, 0.08, 150, 0.8), "ne") == "noop"
    assert told.event(16, (40, 0.08, 150, 0.8), "main") == "advance"


def test_step_one_shares_have_a_limit_by_stage_type() -> None:
    told = opened(success_step_one=99, success_step_one_ratio_by_stage={"main": 0.05})
    assert told.event(8, (40, 0.08, 150, 0.8), "ne") == "noop"
    assert told.event(16, (40, 0.08, 150, 0.8), "main") == "advance"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"success_step_one_by_stage": {"main": -1}}, "by_stage.main = -1 must be at least 0"),
        ({"failure_tolerance_by_stage": {"main": 0}}, "by_stage.main = 0 must be at least 1"),
        ({"success_early_death_window_by_stage": {"a": 1, "A": 2}}, "duplicate entry"),
        ({"phase_allowance": (5, 4)}, "must be phases from 1 that ascend"),
        ({"phase_allowance": (4, 9)}, "no phase 9 of 7"),
    ],
)
def test_a_wrong_gate_is_refused_by_name(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Told(replace(GATE, **changes))


def test_a_decision_tells_every_criterion_with_value_limit_and_verdict() -> None:
    why = opened().evaluate(8, (30, 0.08, 150, 0.8)).why
    for part in (
        "eval/step_one_death_count = 30 is not <= 18",
        "eval/step_one_death_ratio = 0.02604 is not <= 0.02",
        "eval/early_death_fraction_100 = 0.08 is <= 0.1",
        "eval/p10 = 150 is >= 70",
        "eval/p10 = 150 is not < 95",
        "eval/min_final_survival_rate = 0.8 is not < 0.5",
    ):
        assert part in why


def test_a_gate_that_stays_shut_raises_an_alarm_that_names_what_blocks_it() -> None:
    told = opened()
    blocked = (30, 0.08, 150, 0.8)
    for iteration in (8, 16, 24):
        decision = told.evaluate(iteration, blocked)
        assert "ALARM" not in decision.why
        assert decision.metrics["gate/penalty_alarm"] == 0.0
    decision = told.evaluate(32, blocked)
    assert "ALARM: shut for 4 evaluations by eval/step_one_death_count = 30 is not" in decision.why
    assert decision.metrics["gate/penalty_alarm"] == 1.0
    assert told.evaluate(40, GOOD).metrics["gate/penalty_shut"] == 0.0


def test_a_gate_at_its_last_stage_is_not_shut() -> None:
    told = opened()
    told.settings = told.settings.with_([GATE_STAGE.to(3)])
    for iteration in range(8, 80, 8):
        assert "ALARM" not in told.evaluate(iteration, (30, 0.08, 150, 0.8)).why


def test_an_iteration_without_an_evaluation_is_no_news() -> None:
    told = Told()
    decision = told.gate.decide(told.state, View(Progress(5), {"eval/p10": 1.0}, told.settings))
    assert decision == Decision(told.state)


modestly = hypothesis_settings(max_examples=20)
evaluations = st.lists(
    st.tuples(
        st.tuples(st.integers(0, 40), st.floats(0, 0.3), st.floats(1, 500), st.floats(0.3, 1.0)),
        st.sampled_from(["ne", "main"]),
    ),
    max_size=30,
)


@modestly
@given(evaluations, st.integers(0, 29))
def test_a_restart_anywhere_changes_no_decision(
    story: list[tuple[tuple[float, float, float, float], str]], cut: int
) -> None:
    options = replace(GATE, success_early_death_window_by_stage={"main": 2})
    whole, resumed = Told(options), Told(options)
    for number, (figures, kind) in enumerate(story):
        if number == cut:
            saved = json.loads(json.dumps(msgspec.to_builtins(resumed.state)))
            resumed.state = msgspec.convert(saved, PenaltyGateState)
        iteration = 4 * (number + 1)
        first, second = (told.evaluate(iteration, figures, kind) for told in (whole, resumed))
        assert (first.why, first.assignments) == (second.why, second.assignments)
        assert 0 <= whole.stage < 4
