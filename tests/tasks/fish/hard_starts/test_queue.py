"""Rows 15 and 17 of the fish checklist: the cycler and tracker in the hands of real dealers."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from longhaul.core.control import Progress, View
from longhaul.core.metrics import Metrics
from longhaul.core.settings import Setting, Settings
from longhaul.envs.starts import STARTS, STARTS_DEALT, STARTS_LIMIT, StartDealer
from longhaul.schedule.schedule import Change, Schedule
from longhaul.schedule.start_queue import LowWarning
from longhaul.tasks.fish.hard_starts.laps import Candidate, LapRules
from longhaul.tasks.fish.hard_starts.queue import (
    TailQueue,
    TailStage,
    lost_metric,
    replays_metric,
)
from longhaul.tasks.fish.options import TAIL_TYPE

SCHOOLS = 4
GATE: Setting[int] = Setting("fish.gate", 0, "stage of a gate")


def stage(names: str, iterations: int, stage_type: str = "main") -> TailStage:
    candidates = tuple(Candidate(name) for name in names)
    label = f"of {names or 'nothing'}"
    return TailStage(iterations * SCHOOLS, stage_type, label, candidates)


def declared() -> Settings:
    return Settings([STARTS, STARTS_LIMIT, TAIL_TYPE, GATE])


class Training:
    """A queue, and schools that reset; with a lag, a rollout is under way when it decides."""

    def __init__(self, queue: TailQueue, *, lag: int = 0) -> None:
        self.schedule = Schedule([queue], declared())
        self.settings, _ = self.schedule.begin(declared())
        self.used = [self.settings] * lag
        self.dealer = StartDealer()
        self.iteration = 0
        self.dealt: list[list[str]] = []
        self.metrics: list[Metrics] = []

    def iterate(self, resets: int, **outcomes: float) -> tuple[Change, ...]:
        self.iteration += 1
        self.used.append(self.settings)
        self.dealer.offer(self.used.pop(0))
        starts = [self.dealer.deal(0, 0) for _ in range(resets)]
        names = [start[1] for start in starts if isinstance(start, tuple)]
        self.dealt.append([str(name) for name in names])
        metrics = {STARTS_DEALT: float(len(names))} if names else {}
        for name, lost in outcomes.items():
            metrics |= {lost_metric(name): lost, replays_metric(name): 1.0}
        view = View(Progress(self.iteration), metrics, self.settings)
        self.settings, changes = self.schedule.step(view)
        self.metrics.append(self.schedule.metrics)
        return changes

    def restart(self) -> None:
        schedule = Schedule(self.schedule.controllers, declared())
        schedule.load_state_dict(json.loads(json.dumps(self.schedule.state_dict())))
        dealer = StartDealer()
        dealer.load_state_dict(json.loads(json.dumps(self.dealer.state_dict())))
        self.schedule, self.dealer = schedule, dealer

    def figure(self, name: str) -> list[float]:
        return [metrics[f"starts/tail_{name}"] for metrics in self.metrics]


def test_the_first_lap_waits_before_the_run_begins() -> None:
    training = Training(TailQueue((stage("ab", 3, "ne"),), SCHOOLS))
    assert training.settings[STARTS] == (("tail", "a"), ("tail", "b"))
    assert training.settings[TAIL_TYPE] == "ne"


def test_a_stage_in_iterations_lasts_exactly_that_long_whatever_resets() -> None:
    training = Training(TailQueue((stage("ab", 3, "ne"), stage("c", 2)), SCHOOLS))
    for resets in (1, 7, 0, 2, 5, 3, 3):
        training.iterate(resets)
    assert training.dealt == [["a"], list("babababa")[:7], [], ["c"] * 2, ["c"] * 5, [], []]
    assert training.figure("stage") == [1, 1, 1, 2, 2, 2, 2]
    assert training.figure("stage_progress") == pytest.approx([1 / 3, 2 / 3, 1, 0.5, 1, 1, 1])
    assert training.figure("consumed") == [4, 8, 12, 16, 20, 20, 20]
    assert training.settings[STARTS] == ()


def test_a_stage_in_resets_deals_exactly_its_capacity() -> None:
    training = Training(TailQueue((stage("ab", 2, "ne"), stage("c", 1)), SCHOOLS, unit="resets"))
    for resets in (3, 3, 9, 2, 9, 9):
        training.iterate(resets)
    assert [len(names) for names in training.dealt] == [3, 3, 2, 2, 2, 0]
    assert Counter(itertools.chain(*training.dealt)) == {"a": 4, "b": 4, "c": 4}
    assert training.figure("consumed") == [3, 6, 8, 10, 12, 12]
    assert training.figure("remaining_ratio")[-1] == 0


@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize("unit", ["iterations", "resets"])
@hypothesis_settings(max_examples=25)
@given(
    resets=st.lists(st.integers(0, 9), min_size=1, max_size=25),
    pools=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=4),
    per_iteration=st.integers(0, 3),
    cut=st.integers(0, 24),
)
def test_consumption_equals_resets_and_a_restart_changes_nothing(
    lag: int,
    unit: Any,
    resets: list[int],
    pools: list[tuple[int, int]],
    per_iteration: int,
    cut: int,
) -> None:
    stages = tuple(
        stage("".join(chr(97 + 4 * number + k) for k in range(size)), length, f"t{number}")
        for number, (size, length) in enumerate(pools)
    )
    queue = TailQueue(stages, SCHOOLS, unit=unit, per_iteration=per_iteration)
    whole, resumed = Training(queue, lag=lag), Training(queue, lag=lag)
    for number, count in enumerate(resets):
        if number == cut:
            resumed.restart()
        assert whole.iterate(count) == resumed.iterate(count)
    assert whole.dealt == resumed.dealt
    assert whole.metrics == resumed.metrics
    total = sum(len(names) for names in whole.dealt)
    assert whole.dealer.used == total == whole.figure("injections_total")[-1]
    assert sum(whole.figure("injections")) == total
    if unit == "resets":
        assert whole.figure("consumed")[-1] == total <= queue.tracker.total
        for names, told in zip(whole.dealt, whole.figure("stage"), strict=True):
            own = {candidate.id for candidate in stages[int(told) - 1].candidates}
            assert lag or set(names) <= own
    if per_iteration:
        assert max(map(len, whole.dealt)) <= per_iteration * (1 + lag)


def test_a_rest_deals_nothing_and_passes() -> None:
    training = Training(TailQueue((stage("", 2, "rest"), stage("a", 1)), SCHOOLS))
    for _ in range(4):
        training.iterate(2)
    assert training.dealt == [[], [], ["a", "a"], []]


def test_the_warning_counts_hits_and_its_duration_in_the_metrics() -> None:
    queue = TailQueue((stage("a", 10),), SCHOOLS, warning=LowWarning(0.7, patience=3))
    training = Training(queue)
    changes = [training.iterate(1) for _ in range(12)]
    assert training.figure("low_hits") == [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert training.figure("warning") == [0] * 4 + [1] * 8
    assert training.figure("warning_since") == [0] * 4 + [5] * 8
    assert training.figure("warning_duration") == [0] * 4 + list(range(1, 9))
    assert "warning: 50.0% of the starts remain" in changes[4][0].why


def test_types_tell_what_is_left_and_how_often_they_came_back() -> None:
    training = Training(
        TailQueue((stage("a", 1, "ne"), stage("b", 1), stage("a", 1, "ne")), SCHOOLS)
    )
    for _ in range(3):
        training.iterate(1)
    assert training.figure("remaining_ne") == [4, 4, 0]
    assert training.figure("remaining_main") == [4, 0, 0]
    assert training.figure("reentries_ne") == [0, 0, 1]


def test_a_start_that_keeps_failing_is_left_out_of_the_next_lap() -> None:
    rules = LapRules(window=2, lost=0.5, rest=3)
    training = Training(TailQueue((stage("ab", 20),), SCHOOLS, rules=rules))
    training.iterate(2, a=0.9, b=0.1)
    changes = training.iterate(2, a=0.8, b=0.1)
    assert "set aside after failing 2 times: a" in changes[0].why
    training.iterate(2)
    assert training.dealt[-1] == ["b", "b"]
    assert training.figure("set_aside") == [0, 1, 1]
    training.iterate(2)
    training.iterate(2)
    training.iterate(2)
    assert "a" in training.dealt[-1]


def test_the_hardest_starts_are_spared_when_the_gate_moves() -> None:
    queue = TailQueue((stage("abcd", 20),), SCHOOLS, gate=GATE)
    training = Training(queue)
    training.iterate(4, a=0.1, b=0.9, c=0.2, d=0.3)
    training.settings = training.settings.with_([GATE.to(1)])
    changes = training.iterate(4)
    assert "the hardest starts are spared" in changes[0].why
    assert training.settings[STARTS] == (("tail", "a"), ("tail", "c"), ("tail", "d"))
    training.iterate(4)
    assert ("tail", "b") in training.settings[STARTS]


def test_the_queue_writes_and_emits_what_it_says() -> None:
    queue = TailQueue((stage("ab", 2, "ne"), stage("c", 2)), SCHOOLS)
    training = Training(queue)
    training.iterate(3)
    assert set(training.schedule.metrics) == set(queue.emits)
    assert replace(queue).tracker == queue.tracker
