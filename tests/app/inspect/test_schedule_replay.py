from __future__ import annotations

import json
from typing import Any

import pytest

from longhaul.app.inspect.replay import Replayed, recorded_moves, replay
from longhaul.core.control import Progress, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.schedule.adaptive import Nudge
from longhaul.schedule.criterion import Criterion, Limit
from longhaul.schedule.gate import Gate
from longhaul.schedule.ladder import Ladder
from longhaul.schedule.schedule import Move, Schedule
from tests.schedule.examples import CONTROLLERS, FISH, SCORE, STAGE, USED, WEIGHT, settings

SCORES = (0.2, 0.6, 0.1, 0.7, 0.8, 0.9)


def schedule(*, patience: int = 1) -> Schedule:
    gate = Gate("gate", STAGE, 4, (Criterion(SCORE, ">=", 0.5),), patience=patience)
    ladder = Ladder("ladder", FISH, (15, 20, 25, 30), limit=Limit(STAGE))
    return Schedule([gate, ladder], settings())


def record(
    recorded: Schedule, scores: tuple[float, ...] = SCORES
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the metric rows and events a run with these scores leaves behind."""
    held: Settings
    held, _ = recorded.begin(recorded.settings)
    rows: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = [{"event": "note", "text": "not a decision"}]
    for iteration, score in enumerate(scores, start=1):
        progress = Progress(iteration, 100 * iteration, iteration // 2)
        metrics = {SCORE: score, USED: 1.0}
        held, changes = recorded.step(View(progress, metrics, held))
        counters = {
            "iteration": iteration,
            "env_steps": 100 * iteration,
            "episodes": iteration // 2,
        }
        rows.append({**counters, **metrics, **recorded.metrics})
        events += [{"iteration": iteration, **change.as_row()} for change in changes]
    return json.loads(json.dumps(rows)), json.loads(json.dumps(events))


@pytest.mark.parametrize("controller", CONTROLLERS, ids=lambda c: c.name)
def test_the_same_schedule_does_the_same(controller: Any) -> None:
    rows, events = record(Schedule([controller], settings()))
    again = Schedule([controller], settings())
    agreements = {line.agreement for line in replay(again, rows, recorded_moves(events))}
    assert agreements <= {"same", "explains", "opening"}


def test_a_changed_schedule_shows_what_it_would_have_done_instead() -> None:
    rows, events = record(schedule())
    lines = list(replay(schedule(patience=2), rows, recorded_moves(events)))
    moved = [line for line in lines if line.agreement != "explains"]
    assert [(line.iteration, line.controller, line.agreement) for line in moved] == [
        (2, "gate", "only recorded"),
        (2, "ladder", "only recorded"),
        (4, "gate", "only recorded"),
        (4, "ladder", "only recorded"),
        (5, "gate", "differs"),
        (5, "ladder", "differs"),
    ]
    assert moved[-1] == Replayed(
        5,
        "ladder",
        Move(FISH.name, 15, 20),
        "gate.stage = 1 allows rung 1",
        "differs",
        Move(FISH.name, 25, 30),
    )


def test_what_a_run_did_not_do_is_said() -> None:
    rows, _ = record(schedule())
    moved = [line for line in replay(schedule(), rows) if line.move is not None]
    assert {line.agreement for line in moved} == {"only replayed"}


def test_metrics_the_schedule_brings_itself_are_not_taken_from_the_record() -> None:
    rows, _ = record(schedule())
    follower = Nudge("n", WEIGHT, "gate/gate_stage", band=(0, 0.5), limits=(0.0, 1.0), window=1)
    impossible = Gate("gate", STAGE, 4, (Criterion(SCORE, ">", 9),))
    lines = replay(Schedule([impossible, follower], settings()), rows)
    assert [line for line in lines if line.controller == "n"] == []


def test_a_row_without_counters_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs whole numbers iteration, env_steps and episodes"):
        list(replay(schedule(), [{"iteration": 1, SCORE: 0.3}]))


def test_a_damaged_event_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        recorded_moves([{"event": "schedule", "controller": "gate", "moves": [{}]}])
