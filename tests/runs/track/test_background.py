"""A tracker may be slow, broken or dead: the run does not notice and every loss is counted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from longhaul.core.control import Progress
from longhaul.runs.track.background import MOST_FAILURES, BackgroundTracker, Feed, History
from longhaul.runs.track.tracker import Point
from tests.runs.conftest import FakeClock
from tests.runs.track.fakes import Memory, recorded

PAST = (Point(8, 1.0, {"a": 1.0}), Point(16, 2.0, {"a": 2.0}))


def past(known: int, until: Progress) -> Iterator[Point]:
    return (point for point in PAST if known < point.env_steps <= until.env_steps)


def background(
    memory: Memory,
    clock: FakeClock,
    *,
    capacity: int = 100,
    patience: float = 10.0,
    history: History = past,
) -> BackgroundTracker:
    feed = Feed(
        lambda seen: dict(seen.metrics),
        history,
        lambda: {"layer": np.ones(3, np.float32)},
        histogram_seconds=60.0,
    )
    return BackgroundTracker(
        memory,
        feed,
        clock.clocks(),
        capacity=capacity,
        patience_seconds=patience,
        retry_seconds=0.001,
    )


def test_points_arrive_in_order_and_all_of_them(clock: FakeClock) -> None:
    memory = Memory()
    tracker = background(memory, clock)
    tracker.begin(Progress())
    for iteration in range(1, 51):
        tracker.iteration(recorded(iteration))
    tracker.close()
    assert [point.env_steps for point in memory.points] == [8 * i for i in range(1, 51)]
    assert memory.closed
    assert tracker.tally.sent == 50
    assert tracker.tally.is_finished


def test_a_tracker_first_gets_what_it_lacks_of_the_logs(clock: FakeClock) -> None:
    memory = Memory(known=8)
    tracker = background(memory, clock)
    tracker.begin(Progress(2, 16, 0))
    tracker.iteration(recorded(3))
    tracker.close()
    assert memory.opened == Progress(2, 16, 0)
    assert [point.env_steps for point in memory.points] == [16, 24]


def test_a_hung_tracker_costs_points_and_no_time(clock: FakeClock) -> None:
    memory = Memory()
    memory.held.clear()
    tracker = background(memory, clock, capacity=10, patience=0.0)
    tracker.begin(Progress())
    began = time.perf_counter()
    for iteration in range(1, 1001):
        tracker.iteration(recorded(iteration))
    spent = time.perf_counter() - began
    tracker.close()
    tally = tracker.tally
    memory.held.set()
    assert spent < 1.0
    assert tally.dropped >= 989
    assert not tally.is_finished
    assert memory.abandoned


def test_a_failure_in_between_is_counted_and_the_rest_arrives(clock: FakeClock) -> None:
    memory = Memory()
    memory.failing = 2
    tracker = background(memory, clock)
    tracker.begin(Progress())
    for iteration in range(1, 6):
        tracker.iteration(recorded(iteration))
    tracker.close()
    assert tracker.tally.failed == 2
    assert tracker.tally.sent == 3
    assert "nobody answers" in tracker.tally.problem


def test_a_tracker_that_comes_back_gets_what_it_missed(clock: FakeClock) -> None:
    """From the logs, so that an hour without a network leaves no gap."""
    memory = Memory()
    memory.failing = MOST_FAILURES
    logged: list[Point] = []

    def logs(known: int, until: Progress) -> Iterator[Point]:
        return (point for point in logged if known < point.env_steps <= until.env_steps)

    tracker = background(memory, clock, history=logs)
    tracker.begin(Progress())
    for iteration in range(1, 100):
        seen = recorded(iteration)
        logged.append(Point(seen.progress.env_steps, 1.0, seen.metrics))
        tracker.iteration(seen)
    tracker.close()
    assert [point.env_steps for point in memory.points] == [8 * i for i in range(1, 100)]
    assert tracker.tally.is_finished
    assert tracker.tally.dropped == 0


def test_a_tracker_that_only_fails_does_not_keep_the_run_from_ending(clock: FakeClock) -> None:
    memory = Memory()
    memory.failing = 10**9
    tracker = background(memory, clock)
    tracker.begin(Progress())
    for iteration in range(1, 100):
        tracker.iteration(recorded(iteration))
    tracker.close()
    assert memory.points == []
    assert not tracker.tally.is_finished
    assert "nobody answers" in tracker.tally.problem


def test_histograms_come_when_they_are_due(clock: FakeClock) -> None:
    memory = Memory()
    tracker = background(memory, clock)
    tracker.begin(Progress())
    tracker.iteration(recorded(1))
    clock.seconds += 61
    tracker.iteration(recorded(2))
    tracker.iteration(recorded(3))
    tracker.close()
    first, second, third = memory.points
    assert not first.histograms
    assert set(second.histograms) == {"weights/layer", "rollout/ep_rew", "rollout/ep_len"}
    assert second.histograms["rollout/ep_len"].tolist() == [20.0, 20.0]
    assert not third.histograms


def test_films_are_passed_on(clock: FakeClock, tmp_path: Path) -> None:
    memory = Memory()
    tracker = background(memory, clock)
    tracker.begin(Progress())
    tracker.film(Progress(1, 8, 0), "eval/film", tmp_path / "film.mp4")
    tracker.close()
    assert memory.points[0].films == {"eval/film": tmp_path / "film.mp4"}


@pytest.mark.parametrize("closes", [1, 3])
def test_closing_again_does_nothing(clock: FakeClock, closes: int) -> None:
    memory = Memory()
    tracker = background(memory, clock)
    tracker.begin(Progress())
    for _ in range(closes):
        tracker.close()
    assert tracker.tally.is_finished


def test_the_final_evaluation_arrives_although_its_step_was_told_before(clock: FakeClock) -> None:
    memory = Memory(known=16)
    tracker = background(memory, clock)
    tracker.begin(Progress(2, 16, 0))
    tracker.conclude(Progress(2, 16, 0), {"eval/mean_reward": 5.0})
    tracker.close()
    assert {"eval/mean_reward": 5.0} in [point.scalars for point in memory.points]
    assert all(point.env_steps == 16 for point in memory.points)


def test_the_final_evaluation_is_told_again_to_a_tracker_that_failed(clock: FakeClock) -> None:
    memory = Memory()
    memory.failing = MOST_FAILURES
    tracker = background(memory, clock)
    tracker.begin(Progress())
    for iteration in range(1, MOST_FAILURES + 1):
        tracker.iteration(recorded(iteration))
    tracker.conclude(Progress(MOST_FAILURES, 8 * MOST_FAILURES, 0), {"eval/mean_reward": 5.0})
    tracker.close()
    assert {"eval/mean_reward": 5.0} in [point.scalars for point in memory.points]
