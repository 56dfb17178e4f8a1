from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from longhaul.core.control import Progress, View
from longhaul.core.errors import ConfigError
from longhaul.core.metrics import Metrics
from longhaul.core.settings import Settings, SettingValue
from longhaul.schedule.schedule import Change, Schedule
from longhaul.schedule.start_queue import StartQueue, StartStage
from tests.schedule.examples import CATEGORY, STARTS, USED


class Dealer:
    """Deals each start of the setting once, in order, and begins anew when the value changes."""

    def __init__(self) -> None:
        self.offered: tuple[SettingValue, ...] = ()
        self.waiting: list[SettingValue] = []
        self.dealt: list[SettingValue] = []

    def deal(self, starts: tuple[SettingValue, ...], resets: int) -> int:
        if starts != self.offered:
            self.offered, self.waiting = starts, list(starts)
        used, self.waiting = self.waiting[:resets], self.waiting[resets:]
        self.dealt += used
        return len(used)


class Training:
    """A queue and the environments that use its starts."""

    def __init__(self, queue: StartQueue) -> None:
        self.schedule = Schedule([queue], Settings([STARTS, CATEGORY]))
        self.settings, _ = self.schedule.begin(self.schedule.settings)
        self.dealer = Dealer()
        self.iteration = 0

    def iterate(self, resets: int) -> tuple[tuple[Change, ...], Metrics]:
        self.iteration += 1
        used = self.dealer.deal(self.settings[STARTS], resets)
        view = View(Progress(self.iteration), {USED: float(used)}, self.settings)
        self.settings, changes = self.schedule.step(view)
        return changes, self.schedule.metrics


def queue(*stages: StartStage, **fields: Any) -> StartQueue:
    return StartQueue("tail", STARTS, USED, stages, **{"batch": 4, "category": CATEGORY, **fields})


def test_the_first_batch_waits_before_the_run_begins() -> None:
    training = Training(queue(StartStage(10, ("a", "b", "c"), category="ne")))
    assert training.settings[STARTS] == ("a", "b", "c", "a")
    assert training.settings[CATEGORY] == "ne"


@hypothesis_settings(max_examples=40)
@given(
    pools=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 3)), min_size=1, max_size=3),
    batch=st.integers(1, 5),
    resets=st.lists(st.integers(0, 6), min_size=5, max_size=30),
)
def test_starts_are_dealt_in_order_without_gap_or_repetition(
    pools: list[tuple[int, int]], batch: int, resets: list[int]
) -> None:
    stages = [
        StartStage(length, tuple(f"{number}.{k}" for k in range(size)))
        for number, (length, size) in enumerate(pools)
    ]
    training = Training(queue(*stages, batch=batch))
    for count in resets:
        training.iterate(count)
    expected = [start for stage in stages for start in stage.slice(0, stage.length)]
    # A batch that would look like the one before is one longer, so a stage may end one late.
    dealt = training.dealer.dealt
    for number, stage in enumerate(stages):
        own = [start for start in dealt if str(start).startswith(f"{number}.")]
        assert own == list(stage.slice(0, len(own)))
        assert len(own) <= stage.length + 1
    assert [str(s)[0] for s in dealt] == sorted(str(s)[0] for s in dealt)
    if training.settings[STARTS] == ():
        assert Counter(expected) <= Counter(dealt)


def test_a_pool_of_one_start_is_dealt_again_and_again() -> None:
    training = Training(queue(StartStage(20, ("worst",)), batch=2))
    for _ in range(20):
        training.iterate(5)
    assert len(training.dealer.dealt) in (20, 21)
    assert training.settings[STARTS] == ()


def test_a_stage_in_iterations_ends_on_time_whatever_was_used() -> None:
    training = Training(
        queue(
            StartStage(2, ("a",), category="ne"),
            StartStage(3, ("b",), category="main"),
            unit="iterations",
        )
    )
    categories = []
    for resets in (0, 9, 0, 0, 1):
        categories.append((training.settings[CATEGORY], training.settings[STARTS][:1]))
        training.iterate(resets)
    assert categories == [("ne", ("a",))] * 2 + [("main", ("b",))] * 3
    assert training.settings[STARTS] == ()


def test_a_repeating_queue_begins_again() -> None:
    training = Training(queue(StartStage(2, ("a", "b")), StartStage(1, ("c",)), repeat=True))
    for _ in range(5):
        training.iterate(2)
    assert training.dealer.dealt == ["a", "b", "c", "a", "b", "c", "a", "b"]
    assert training.schedule.metrics["starts/tail_laps"] == 2


def test_the_tracker_counts_what_remains_by_category() -> None:
    training = Training(
        queue(
            StartStage(4, ("a", "b"), category="ne"),
            StartStage(6, ("c",), category="main"),
            StartStage(10, ("d", "e"), category="ne", label="again"),
        )
    )
    _, metrics = training.iterate(3)
    assert metrics == {
        "starts/tail_stage": 1,
        "starts/tail_stage_progress": 0.75,
        "starts/tail_remaining": 17,
        "starts/tail_remaining_ratio": 0.85,
        "starts/tail_laps": 0,
        "starts/tail_low_hits": 0,
        "starts/tail_warning": 0,
        "starts/tail_warning_duration": 0,
        "starts/tail_remaining_ne": 11,
        "starts/tail_reentries_ne": 0,
        "starts/tail_remaining_main": 6,
        "starts/tail_reentries_main": 0,
    }
    training.iterate(4)
    training.iterate(4)
    (change,), metrics = training.iterate(4)
    assert change.why == "again"
    assert [move.setting for move in change.moves] == [STARTS.name, CATEGORY.name]
    assert metrics["starts/tail_stage"] == 3
    assert metrics["starts/tail_reentries_ne"] == 1
    assert metrics["starts/tail_remaining_main"] == 0


def test_the_warning_needs_patience_lasts_and_clears() -> None:
    training = Training(
        queue(
            StartStage(10, ("a", "b", "c")), warn_ratio=0.7, warn_patience=3, repeat=True, batch=1
        )
    )
    story = []
    for resets in (1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1):
        changes, metrics = training.iterate(resets)
        story.append(
            (
                metrics["starts/tail_low_hits"],
                metrics["starts/tail_warning"],
                metrics["starts/tail_warning_duration"],
            )
        )
        if metrics["starts/tail_low_hits"] == 3:
            assert "warning: 50.0% of the starts remain, 70.0% is low" in changes[0].why
    assert story == [
        (0, 0, 0),
        (0, 0, 0),
        (1, 0, 0),
        (2, 0, 0),
        (3, 1, 1),
        (4, 1, 2),
        (5, 1, 3),
        (6, 1, 4),
        (7, 1, 5),
        (8, 1, 6),
        (0, 0, 0),
    ]
    assert "warning cleared after 6 iterations, 100.0% remain" in changes[0].why


def test_a_count_that_was_not_measured_is_no_news() -> None:
    training = Training(queue(StartStage(10, ("a", "b"))))
    before = training.schedule.state_dict()
    view = View(Progress(1), {}, training.settings)
    assert training.schedule.step(view) == (training.settings, ())
    assert training.schedule.state_dict() == before


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"stages": ()}, "has no stages"),
        ({"stages": (StartStage(3, ()),)}, "stage 1 has length 3 and 0 starts"),
        ({"stages": (StartStage(0, ("a",), label="ne"),)}, "ne has length 0"),
        ({"stages": (StartStage(3, ("a",), category="n e"),)}, "category 'n e'"),
        ({"batch": 0}, "batch"),
        ({"warn_ratio": 1.5}, "warn_ratio = 1.5"),
    ],
)
def test_impossible_queues_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(queue(StartStage(3, ("a",))), **fields)
