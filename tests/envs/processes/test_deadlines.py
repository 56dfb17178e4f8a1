from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from longhaul.envs.config import ProcessesConfig
from longhaul.envs.processes.limits import Deadlines
from longhaul.envs.processes.mailbox import STEP_TIMES, WORDS
from longhaul.envs.processes.messages import WorkerStage

CONFIG = ProcessesConfig(least_deadline_seconds=5.0, step_seconds=60.0, construct_seconds=120.0)


def words(nanoseconds: list[int]) -> memoryview:
    counted = memoryview(array("q", [0] * WORDS))
    for time in nanoseconds:
        counted[STEP_TIMES + time.bit_length()] += 1
    return counted


def test_a_worker_that_never_did_it_gets_the_configured_time() -> None:
    deadlines = Deadlines(CONFIG)
    assert deadlines.seconds(WorkerStage.STEP, words([]), [words([1000])]) == 60.0
    assert deadlines.seconds(WorkerStage.IMPORT, words([]), []) == 120.0


def test_quick_steps_have_the_least_deadline() -> None:
    quick = words([1_000_000] * 1000)
    assert Deadlines(CONFIG).seconds(WorkerStage.STEP, quick, [quick]) == 5.0


def test_slow_steps_have_twenty_times_their_time_up_to_the_cap() -> None:
    slow = words([900_000_000] * 1000)
    assert 18.0 <= Deadlines(CONFIG).seconds(WorkerStage.STEP, slow, [slow]) <= 36.0
    slower = words([10_000_000_000] * 1000)
    assert Deadlines(CONFIG).seconds(WorkerStage.STEP, slower, [slower]) == 60.0


def test_the_timings_of_replaced_workers_still_count() -> None:
    deadlines = Deadlines(CONFIG)
    deadlines.remember(words([900_000_000] * 1000))
    fresh = words([1000])
    assert deadlines.seconds(WorkerStage.STEP, fresh, [fresh]) >= 18.0


@given(st.lists(st.integers(1, 10**10), min_size=1, max_size=300))
def test_a_deadline_is_never_shorter_than_the_rule(times: list[int]) -> None:
    counted = words(times)
    rare = sorted(times)[max(0, len(times) - 1 - len(times) // 1000)] / 1e9
    found = Deadlines(CONFIG).seconds(WorkerStage.STEP, counted, [counted])
    assert found >= min(60.0, max(5.0, 20 * rare))
    assert found <= min(60.0, max(5.0, 40 * rare))
