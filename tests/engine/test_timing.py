"""Where the time goes, by a clock that moves when told."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from longhaul.engine.summary import STAGES, StageTimer


class FakeClock:
    """A clock that stands still until it is told to move."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds

    def pass_(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass(frozen=True)
class Work:
    """A rollout as far as the watch looks at it."""

    env_steps: int
    episodes: tuple[int, ...] = ()


def spend(watch: StageTimer, clock: FakeClock, **seconds: float) -> None:
    for stage, spent in seconds.items():
        with watch.stage(stage):
            clock.pass_(spent)


def test_stages_and_the_rest_add_up_to_the_iteration() -> None:
    clock = FakeClock()
    watch = StageTimer(clock=clock)
    spend(watch, clock, collect=2.0, learn=3.0, evaluate=1.0)
    clock.pass_(0.5)
    metrics = watch.lap(Work(130))
    assert metrics["time/collect_seconds"] == 2.0
    assert metrics["time/learn_seconds"] == 3.0
    assert metrics["time/evaluate_seconds"] == 1.0
    assert metrics["time/other_seconds"] == 0.5
    assert metrics["time/iteration_seconds"] == 6.5
    assert metrics["time/fps"] == 20.0
    assert "time/checkpoint_seconds" not in metrics


def test_a_checkpoint_counts_in_the_iteration_after_it() -> None:
    clock = FakeClock()
    watch = StageTimer(clock=clock)
    spend(watch, clock, collect=1.0)
    watch.lap(Work(10))
    spend(watch, clock, checkpoint=4.0, collect=1.0)
    metrics = watch.lap(Work(10))
    assert metrics["time/checkpoint_seconds"] == 4.0
    assert metrics["time/iteration_seconds"] == 5.0
    assert metrics["time/other_seconds"] == 0.0
    assert metrics["time/fps"] == 2.0


def test_the_sum_over_all_laps_is_the_time_of_the_session() -> None:
    clock = FakeClock()
    watch = StageTimer(clock=clock)
    total = 0.0
    for lap in range(5):
        spend(watch, clock, collect=0.25 * lap, learn=1.0, checkpoint=0.125)
        clock.pass_(0.0625)
        metrics = watch.lap(Work(100))
        parts = [metrics.get(f"time/{name}_seconds", 0.0) for name in (*STAGES, "other")]
        assert sum(parts) == pytest.approx(metrics["time/iteration_seconds"])
        total += metrics["time/iteration_seconds"]
    assert metrics["time/session_seconds"] == pytest.approx(total)
    assert metrics["time/session_fps"] == pytest.approx(500 / total)


def test_a_stage_entered_twice_counts_twice() -> None:
    clock = FakeClock()
    watch = StageTimer(clock=clock)
    spend(watch, clock, learn=1.0)
    spend(watch, clock, learn=2.0)
    assert watch.lap(Work(1))["time/learn_seconds"] == 3.0


def test_a_stage_that_fails_is_counted_all_the_same() -> None:
    clock = FakeClock()
    watch = StageTimer(clock=clock)

    def fail() -> None:
        with watch.stage("learn"):
            clock.pass_(2.0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert watch.lap(Work(1))["time/learn_seconds"] == 2.0


def test_a_clock_that_stands_still_divides_by_nothing() -> None:
    metrics = StageTimer(clock=FakeClock()).lap(Work(10))
    assert all(value < float("inf") for value in metrics.values())


def test_whoever_watches_is_told_of_every_stage() -> None:
    entered: list[str] = []
    clock = FakeClock()
    watch = StageTimer(clock=clock, entered=entered.append)
    spend(watch, clock, collect=1.0, learn=1.0)
    assert entered == ["collect", "learn"]


def test_parts_of_a_stage_are_told_beside_it_once_per_lap() -> None:
    clock = FakeClock()
    watch = StageTimer(clock=clock)
    with watch.stage("learn"):
        for _ in range(2):
            with watch.part("replay_draw"):
                clock.pass_(0.25)
        clock.pass_(0.5)
    metrics = watch.lap(Work(10))
    assert metrics["time/replay_draw_ms"] == 500.0
    assert metrics["time/learn_seconds"] == 1.0
    assert metrics["time/other_seconds"] == 0.0
    assert "time/replay_draw_ms" not in watch.lap(Work(10))


def test_a_gauge_is_asked_at_every_lap() -> None:
    clock = FakeClock()
    watch = StageTimer(clock=clock, wall=lambda: 5.0)
    watch.add_gauge(lambda: {"mem/rss": clock.seconds})
    spend(watch, clock, collect=3.0, learn=1.0)
    metrics = watch.lap(Work(1))
    assert metrics["mem/rss"] == 104.0
    assert metrics["time/wall"] == 5.0
    assert metrics["time/collect_share"] == 0.75
    assert metrics["time/learn_share"] == 0.25
    assert metrics["time/other_share"] == 0.0
