"""Telling a run that is stuck from one that takes its time."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.core.errors import ConfigError
from longhaul.runs.monitor.resources import WatchConfig
from longhaul.runs.monitor.stalls import (
    Burst,
    ProgressSignal,
    Recovery,
    Sign,
    SlowStepDetector,
    Stall,
    StallDetector,
)

CONFIG = WatchConfig()
LOOK = 0.5


def test_a_stage_that_was_never_gone_through_is_given_more_time() -> None:
    detector = StallDetector(CONFIG)
    assert detector.limit(Sign("learn", 1, 0, in_step=False, is_known=False)) == 600
    assert detector.limit(Sign("learn", 1, 0, in_step=False)) == 30


def silent(detector: StallDetector, sign: Sign, seconds: float) -> list[Stall | Recovery]:
    """Look at a pulse that does not move, twice a second."""
    found = [detector.look(sign, LOOK) for _ in range(int(seconds / LOOK))]
    return [one for one in found if one is not None]


def test_silence_beyond_the_limit_is_a_stall_told_again_each_time_it_has_doubled() -> None:
    detector = StallDetector(CONFIG)
    sign = Sign("learn", 7, 900, in_step=False)
    detector.look(sign, LOOK)
    stalls = silent(detector, sign, 130)
    assert stalls == [Stall("learn", seconds, 30.0) for seconds in (30.0, 60.0, 120.0)]


def test_a_run_that_goes_on_says_so_and_the_stall_is_not_learned() -> None:
    detector = StallDetector(CONFIG)
    stuck, moved = Sign("learn", 7, 9, in_step=False), Sign("collect", 8, 9, in_step=False)
    detector.look(stuck, LOOK)
    silent(detector, stuck, 50)
    assert detector.look(moved, LOOK) == Recovery("learn", 50.5)
    assert detector.limit(stuck) == 30


def test_the_longest_silence_that_ended_by_itself_is_learned() -> None:
    detector = StallDetector(CONFIG)
    slow = Sign("evaluate", 3, 9, in_step=False)
    detector.look(slow, LOOK)
    assert silent(detector, slow, 20) == []
    detector.look(Sign("record", 4, 9, in_step=False), LOOK)
    assert detector.limit(slow) == pytest.approx(205)


def test_steps_are_progress_within_a_stage() -> None:
    detector = StallDetector(CONFIG)
    found = [
        detector.look(Sign("collect", 1, number // 20, in_step=True), LOOK)
        for number in range(4000)
    ]
    assert not any(found)


@given(
    st.floats(1e-4, 300),
    st.floats(0.05, 0.3),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=60)
def test_stages_of_any_usual_length_are_never_taken_for_stuck(
    usual: float, spread: float, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    detector = StallDetector(WatchConfig(first_seconds=4000.0))
    for number, seconds in enumerate(usual * generator.lognormal(0.0, spread, 60), 1):
        sign = Sign("collect", number, 0, in_step=False, is_known=number > 1)
        detector.look(sign, min(seconds, LOOK))
        assert silent(detector, sign, seconds) == []


def test_a_million_normal_steps_are_neither_stuck_nor_slow() -> None:
    generator = np.random.default_rng(8)
    stalls, slow = StallDetector(CONFIG), SlowStepDetector(CONFIG)
    # Half a millisecond each, one in a thousand fifty times that: a level being made.
    seconds = 5e-4 * generator.lognormal(0.0, 0.7, 1_000_000)
    seconds[generator.random(seconds.size) < 1e-3] *= 50
    ends = np.cumsum(seconds)
    for moment in np.arange(LOOK, ends[-1], LOOK):
        steps = int(np.searchsorted(ends, moment))
        sign = Sign("collect", steps // 128, steps, in_step=True)
        assert stalls.look(sign, LOOK) is None
        assert slow.look(sign, LOOK) is None
    assert slow.usual == pytest.approx(float(seconds.mean()), rel=0.3)


def test_a_step_that_takes_far_longer_than_usual_is_told_once() -> None:
    detector = SlowStepDetector(CONFIG)
    for number in range(100):
        detector.look(Sign("collect", 1, 50 * number, in_step=True), LOOK)
    assert detector.usual == pytest.approx(0.01)
    stuck = Sign("collect", 1, 4950, in_step=True)
    found = [detector.look(stuck, LOOK) for _ in range(20)]
    told = [one for one in found if one is not None]
    assert len(told) == 1
    assert told[0].seconds == 1.0
    assert detector.look(Sign("collect", 1, 5000, in_step=True), LOOK) is None
    assert detector.usual == pytest.approx(0.01)


def test_steps_that_always_take_long_are_not_slow() -> None:
    detector = SlowStepDetector(CONFIG)
    found = [
        detector.look(Sign("collect", 1, number // 6, in_step=True), LOOK) for number in range(2000)
    ]
    assert not any(found)
    assert detector.limit == pytest.approx(20 * 3.0, rel=0.2)


def test_no_step_is_slow_before_the_usual_time_is_known() -> None:
    assert SlowStepDetector(CONFIG).limit == math.inf


def test_time_outside_of_steps_makes_no_step_slow() -> None:
    detector = SlowStepDetector(CONFIG)
    for number in range(100):
        detector.look(Sign("collect", 1, 50 * number, in_step=True), LOOK)
    learning = Sign("learn", 2, 4950, in_step=False)
    assert not any(detector.look(learning, LOOK) for _ in range(100))


@given(st.lists(st.floats(0, 40), max_size=60), st.integers(1, 6), st.floats(1, 100))
def test_a_burst_needs_enough_events_and_comes_once_per_window(
    gaps: list[float], count: int, seconds: float
) -> None:
    burst, now = Burst(count, seconds), 0.0
    times: list[float] = []
    told: list[float] = []
    for gap in gaps:
        now += gap
        times.append(now)
        if burst.add(now):
            told.append(now)
            assert sum(now - one <= seconds for one in times) >= count
    assert all(after - before >= seconds - 1e-9 for before, after in itertools.pairwise(told))


def test_a_pulse_tells_what_the_loop_does() -> None:
    pulse = ProgressSignal()
    assert pulse.read() == Sign("starting", 0, 0, in_step=False, is_known=False)
    pulse.enter("collect")
    pulse.begin_step()
    assert pulse.read() == Sign("collect", 1, 0, in_step=True, is_known=False)
    pulse.end_step()
    pulse.leave("collect")
    assert pulse.read() == Sign("record", 2, 1, in_step=False)
    pulse.enter("collect")
    assert pulse.read() == Sign("collect", 3, 1, in_step=False)


def test_a_config_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"watch\.factor = 0\.5 must be at least 1"):
        WatchConfig(factor=0.5)
