"""Promises every kind of controller keeps, whatever it measures and wherever it is interrupted."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from longhaul.core.control import Controller, Progress, View
from longhaul.core.settings import Settings
from longhaul.schedule.config import KINDS
from longhaul.schedule.schedule import Bounded, Change, Emits, Schedule
from tests.schedule.examples import CATEGORY, CONTROLLERS, DEATHS, SCORE, STAGE, USED, settings

every_kind = pytest.mark.parametrize("controller", CONTROLLERS, ids=lambda c: c.name)
modestly = hypothesis_settings(max_examples=15)


@dataclass(frozen=True)
class Told:
    """What one iteration tells a schedule."""

    env_steps: int
    episodes: int
    metrics: dict[str, float]
    stage: int
    category: str


shares = st.floats(0, 1, allow_nan=False)
tellings = st.builds(
    Told,
    env_steps=st.integers(0, 400),
    episodes=st.integers(0, 5),
    metrics=st.fixed_dictionaries(
        {}, optional={SCORE: shares, DEATHS: shares, USED: st.integers(0, 4).map(float)}
    ),
    stage=st.integers(0, 3),
    category=st.sampled_from(["", "easy", "hard"]),
)
stories = st.lists(tellings, max_size=25)


class Play:
    """A schedule of one controller, told one iteration after another."""

    def __init__(self, controller: Controller[Any]) -> None:
        self.schedule = Schedule([controller], settings())
        self.progress = Progress()
        self.settings, self.opening = self.schedule.begin(settings())

    def tell(self, told: Told, *, keep_metric_order: bool = True) -> tuple[Change, ...]:
        metrics = told.metrics
        if not keep_metric_order:
            metrics = dict(reversed(metrics.items()))
        now = self.progress
        self.progress = Progress(
            now.iteration + 1, now.env_steps + told.env_steps, now.episodes + told.episodes
        )
        # Settings another controller writes move by themselves here.
        (controller,) = self.schedule.controllers
        others = [
            assignment
            for assignment in (STAGE.to(told.stage), CATEGORY.to(told.category))
            if assignment.name not in controller.writes
        ]
        view = View(self.progress, metrics, self.settings.with_(others))
        self.settings, changes = self.schedule.step(view)
        return changes

    def restart(self) -> None:
        """Continue in a fresh schedule, through JSON as a checkpoint would."""
        saved = json.loads(json.dumps(self.schedule.state_dict(), allow_nan=False))
        self.schedule = Schedule(self.schedule.controllers, settings())
        self.schedule.load_state_dict(saved)


def test_every_kind_of_controller_is_among_the_examples() -> None:
    assert {type(controller) for controller in CONTROLLERS} == set(KINDS.values())


@every_kind
@modestly
@given(story=stories, cut=st.integers(0, 24))
def test_a_restart_changes_no_decision(
    controller: Controller[Any], story: list[Told], cut: int
) -> None:
    straight, interrupted = Play(controller), Play(controller)
    for index, told in enumerate(story):
        if index == cut:
            interrupted.restart()
        assert interrupted.tell(told) == straight.tell(told)
        assert interrupted.settings == straight.settings
        assert interrupted.schedule.metrics == straight.schedule.metrics
    assert interrupted.schedule.state_dict() == straight.schedule.state_dict()


@every_kind
@modestly
@given(story=stories)
def test_no_news_changes_nothing(controller: Controller[Any], story: list[Told]) -> None:
    play = Play(controller)
    for told in story:
        play.tell(told)
    before = play.schedule.state_dict()
    # Settings that others write are part of the view; a ladder takes them up one rung at a time.
    for _ in range(3):
        play.settings, _ = play.schedule.step(View(play.progress, {}, play.settings))
    after, changes = play.schedule.step(View(play.progress, {}, play.settings))
    assert changes == ()
    assert after == play.settings
    assert play.schedule.state_dict() == before


@every_kind
@modestly
@given(story=stories)
def test_values_stay_within_what_the_controller_promised(
    controller: Controller[Any], story: list[Told]
) -> None:
    assert isinstance(controller, Bounded)
    promised: dict[str, list[Any]] = {}
    for assignment in controller.extremes:
        promised.setdefault(assignment.name, []).append(assignment.value)
    play = Play(controller)
    for told in story:
        for change in play.tell(told):
            assert change.controller == controller.name
            for move in change.moves:
                assert move.setting in controller.writes
                if isinstance(move.new, (int, float)):
                    assert min(promised[move.setting]) <= move.new <= max(promised[move.setting])


@every_kind
@modestly
@given(story=stories)
def test_decisions_do_not_depend_on_the_order_of_the_metrics(
    controller: Controller[Any], story: list[Told]
) -> None:
    one, other = Play(controller), Play(controller)
    for told in story:
        assert one.tell(told) == other.tell(told, keep_metric_order=False)
    assert one.schedule.state_dict() == other.schedule.state_dict()


@every_kind
@modestly
@given(story=stories)
def test_a_decision_is_pure(controller: Controller[Any], story: list[Told]) -> None:
    state, progress, held = controller.initial(), Progress(), settings()
    for told in story:
        progress = replace(progress, iteration=progress.iteration + 1)
        view = View(progress, told.metrics, held)
        decision = controller.decide(state, view)
        assert controller.decide(state, view) == decision
        state, held = decision.state, held.with_(decision.assignments)


@every_kind
@modestly
@given(story=stories)
def test_every_move_has_a_reason_and_every_metric_was_announced(
    controller: Controller[Any], story: list[Told]
) -> None:
    announced = set(controller.emits) if isinstance(controller, Emits) else set()
    play = Play(controller)
    for told in story:
        assert all(change.why for change in play.tell(told))
        assert set(play.schedule.metrics) <= announced


@every_kind
def test_beginning_again_gives_the_same_settings(controller: Controller[Any]) -> None:
    fresh = Schedule([controller], settings())
    assert fresh.begin(settings())[0] == fresh.begin(settings())[0]


@every_kind
def test_a_fresh_schedule_leaves_foreign_settings_alone(controller: Controller[Any]) -> None:
    begun, _ = Schedule([controller], settings()).begin(settings())
    untouched: Settings = settings()
    for name, value in begun.values().items():
        if name not in controller.writes:
            assert untouched.values()[name] == value
