from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from longhaul.core.control import Controller, Decision, Progress, View
from longhaul.core.errors import CheckpointError, ConfigError
from longhaul.core.settings import Assignment, Setting
from longhaul.core.state import Stateful
from longhaul.schedule.adaptive import Nudge
from longhaul.schedule.criterion import Criterion, Limit
from longhaul.schedule.gate import Gate
from longhaul.schedule.ladder import Ladder
from longhaul.schedule.ramp import Ramp
from longhaul.schedule.schedule import Change, Move, Schedule
from longhaul.schedule.start_queue import StartQueue, StartStage
from tests.schedule.examples import (
    CATEGORY,
    FISH,
    RATE,
    SCORE,
    STAGE,
    STARTS,
    USED,
    WEIGHT,
    settings,
)


def gate(name: str = "gate", **fields: Any) -> Gate:
    return Gate(name, STAGE, **{"stages": 4, "success": (Criterion(SCORE, ">=", 0.5),), **fields})


def ladder() -> Ladder[int]:
    return Ladder("ladder", FISH, (15, 20, 25, 30), limit=Limit(STAGE))


def nudge(name: str = "nudge", setting: Setting[float] = WEIGHT, metric: str = SCORE) -> Nudge:
    return Nudge(name, setting, metric, band=(0.2, 0.4), limits=(0.1, 0.9), rate=0.5)


@dataclass(frozen=True)
class Stubborn:
    """A controller from elsewhere, which tells nothing beforehand."""

    name: str = "stubborn"
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = (WEIGHT.name,)
    assignment: Assignment = WEIGHT.to(0.9)  # noqa: RUF009  # a frozen value, shared safely

    def initial(self) -> None:
        return None

    def decide(self, state: None, view: View) -> Decision[None]:
        return Decision(state, (self.assignment,), "because")


def refusal(*controllers: Controller[Any]) -> str:
    with pytest.raises(ConfigError) as refused:
        Schedule(controllers, settings())
    return str(refused.value)


def test_later_controllers_see_what_earlier_ones_did() -> None:
    schedule = Schedule([gate(), ladder()], settings())
    after, changes = schedule.step(View(Progress(1), {SCORE: 0.9}, settings()))
    assert (after[STAGE], after[FISH]) == (1, 20)
    assert changes == (
        Change("gate", (Move(STAGE.name, 0, 1),), "advance: success 1 of 1"),
        Change("ladder", (Move(FISH.name, 15, 20),), "gate.stage = 1 allows rung 1"),
    )


def test_later_controllers_see_metrics_of_earlier_ones() -> None:
    reader = nudge(metric="gate/gate_stage")
    schedule = Schedule([gate(), reader], settings())
    after, _ = schedule.step(View(Progress(1), {SCORE: 0.9}, settings()))
    assert after[WEIGHT] == pytest.approx(0.3)
    assert schedule.metrics["gate/gate_stage"] == 1.0


def test_metrics_are_those_of_the_last_step() -> None:
    schedule = Schedule([gate()], settings())
    schedule.step(View(Progress(1), {SCORE: 0.9}, settings()))
    schedule.step(View(Progress(2), {}, settings()))
    assert schedule.metrics == {}


def test_a_decision_that_changes_nothing_still_explains_itself() -> None:
    schedule = Schedule([gate()], settings())
    after, changes = schedule.step(View(Progress(1), {SCORE: 0.1}, settings()))
    assert after == settings()
    blocked = "noop: no failure, but no success; blocked by eval/score = 0.1 is not >= 0.5"
    assert changes == (Change("gate", (), blocked),)


def test_a_change_becomes_a_row_of_plain_values() -> None:
    row = Change("queue", (Move(STARTS.name, (), ((1, 2.0), "a")),), "stage 1").as_row()
    assert (
        row
        == json.loads(json.dumps(row))
        == {
            "event": "schedule",
            "controller": "queue",
            "moves": [{"setting": "env.starts", "old": [], "new": [[1, 2.0], "a"]}],
            "why": "stage 1",
        }
    )


def test_the_first_iteration_runs_with_the_schedules_own_values() -> None:
    schedule = Schedule([Ramp("lr", RATE, start=0.25, total=100)], settings())
    begun, changes = schedule.begin(settings())
    assert begun[RATE] == 0.25
    assert changes[0].moves == (Move(RATE.name, 3e-4, 0.25),)


def test_an_unknown_setting_is_refused_with_the_nearest_name() -> None:
    stranger = Setting("learn.learning_rat", 0.1, "")
    assert refusal(nudge(setting=stranger)) == (
        "schedule.nudge writes 'learn.learning_rat', which nothing declares; "
        "did you mean 'learn.learning_rate'?"
    )


def test_an_unknown_setting_to_read_is_refused_with_the_nearest_name() -> None:
    lost = Ladder("ladder", FISH, (15, 20), limit=Limit(Setting("gate.stag", 0, "")))
    assert refusal(lost) == (
        "schedule.ladder reads 'gate.stag', which nothing declares; did you mean 'gate.stage'?"
    )


def test_two_writers_of_one_setting_are_refused() -> None:
    message = refusal(nudge("one"), nudge("two"))
    assert message.startswith("schedule.one and schedule.two both write 'reward.weight'")


def test_two_controllers_of_one_name_are_refused() -> None:
    assert "two controllers are called 'nudge'" in refusal(nudge(), nudge(setting=RATE))


@pytest.mark.parametrize("name", ["", "two words", "a/b", "a.b"])
def test_a_name_that_no_metric_could_carry_is_refused(name: str) -> None:
    assert f"invalid controller name {name!r}" in refusal(nudge(name))


def test_a_reader_of_a_setting_before_its_writer_is_refused() -> None:
    assert refusal(ladder(), gate()) == (
        "schedule.ladder reads 'gate.stage', which schedule.gate writes; put 'gate' before 'ladder'"
    )


def test_a_reader_of_a_metric_before_the_controller_that_brings_it_is_refused() -> None:
    assert "put 'gate' before 'nudge'" in refusal(nudge(metric="gate/gate_held"), gate())


def test_a_reader_of_its_own_metric_is_refused() -> None:
    own = gate(success=(Criterion("gate/gate_held", ">=", 1),))
    assert "schedule.gate reads 'gate/gate_held', which it writes itself" in refusal(own)


def test_a_gate_is_placed_after_the_queue_that_names_the_category() -> None:
    starts = StartQueue(
        "starts", STARTS, USED, (StartStage(3, ("a",)),), batch=1, category=CATEGORY
    )
    assert "put 'starts' before 'gate'" in refusal(gate(category=CATEGORY), starts)
    Schedule([starts, gate(category=CATEGORY)], settings())


def test_values_out_of_range_are_refused_before_the_run() -> None:
    assert refusal(Ramp("lr", RATE, start=5.0, total=100)) == (
        "schedule.lr: setting 'learn.learning_rate' = 5.0 is outside [0.0, 1.0]"
    )


def test_a_foreign_controllers_value_out_of_range_is_told_by_its_name() -> None:
    schedule = Schedule([Stubborn(assignment=WEIGHT.to(7.0))], settings())
    with pytest.raises(ConfigError, match=r"schedule\.stubborn: setting 'reward.weight' = 7.0"):
        schedule.step(View(Progress(1), {}, settings()))


def test_a_controller_that_writes_what_it_did_not_announce_is_stopped() -> None:
    schedule = Schedule([Stubborn(assignment=FISH.to(3))], settings())
    with pytest.raises(ConfigError, match=r"schedule\.stubborn assigns 'env\.fish'"):
        schedule.step(View(Progress(1), {}, settings()))


def test_metrics_that_nothing_measures_are_named_with_the_nearest() -> None:
    schedule = Schedule([gate(), ladder()], settings())
    assert schedule.unmeasured(["eval/scores", "train/loss"]) == (
        "schedule.gate reads 'eval/score', which nothing measures; did you mean 'eval/scores'?",
    )
    assert schedule.unmeasured([SCORE]) == ()


def test_an_empty_schedule_changes_nothing() -> None:
    schedule = Schedule([], settings())
    held = settings()
    assert schedule.step(View(Progress(1), {SCORE: 0.9}, held)) == (held, ())
    schedule.load_state_dict(schedule.state_dict())


def test_a_schedule_is_a_part_that_can_be_saved() -> None:
    assert isinstance(Schedule([], settings()), Stateful)


def test_the_state_of_another_schedule_is_refused() -> None:
    saved = Schedule([gate(), ladder()], settings()).state_dict()
    with pytest.raises(CheckpointError) as refused:
        Schedule([gate(), nudge()], settings()).load_state_dict(saved)
    assert str(refused.value) == (
        "the checkpoint's schedule is [Gate 'gate', Ladder 'ladder'], this run's is "
        "[Gate 'gate', Nudge 'nudge']; resume with the schedule the run was started with"
    )


@pytest.mark.parametrize(
    "damage",
    [
        {"success_streak": "three"},
        {"succes_streak": 3},
        {},
        [],
    ],
)
def test_a_damaged_state_is_refused_by_the_controllers_name(damage: Any) -> None:
    schedule = Schedule([gate()], settings())
    saved = schedule.state_dict()
    saved["controllers"][0]["state"] = damage
    with pytest.raises(CheckpointError, match=r"state of schedule\.gate"):
        schedule.load_state_dict(saved)


@pytest.mark.parametrize(
    "state", [{}, {"format": 2}, {"format": 1}, {"format": 1, "controllers": [3]}]
)
def test_a_state_of_another_format_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="the checkpoint's schedule"):
        Schedule([gate()], settings()).load_state_dict(state)
