"""Workers that die or hang are replaced, and nothing that was seen differs."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from longhaul.core.env import VectorEnv
from longhaul.core.spaces import Tier
from longhaul.envs.processes.vector import REBASE_TICKS, ProcessVectorEnv
from longhaul.envs.serial import SerialVectorEnv
from tests.contracts.vector_env_contract import (
    SEEDS,
    Record,
    assert_same,
    play,
    through_checkpoint,
    wishes,
)
from tests.envs.processes.conftest import QUICK, Launch, Reports
from tests.envs.school import SchoolFactory
from tests.faults.trouble import Plan, tell, turns
from tests.faults.walk import WalkFactory

pytestmark = pytest.mark.thorough


def undisturbed(factory: WalkFactory, count: int, steps: int) -> list[Record]:
    vector = SerialVectorEnv(replace(factory, folder="").source(), count, SEEDS)
    vector.reset()
    return play(vector, wishes(vector, steps))


def seeds_of(records: list[Record]) -> list[int]:
    return [episode.seed for record in records for episode in record.episodes]


@pytest.mark.parametrize(
    ("tier", "deaths"),
    [
        (Tier.REPLAY, 20),
        pytest.param(Tier.SNAPSHOT, 20, marks=pytest.mark.slow),
        pytest.param(Tier.REPLAY, 200, marks=pytest.mark.slow),
    ],
)
def test_deaths_in_mid_step_change_nothing(
    tmp_path: Path, launch: Launch, reports: Reports, tier: Tier, deaths: int
) -> None:
    factory = WalkFactory(str(tmp_path), tier)
    steps = 40 + 5 * deaths
    expected = undisturbed(factory, 16, steps)
    long = [e.seed for r in expected for e in r.episodes if e.length >= 4 and e.number][:deaths]
    assert len(long) == deaths
    tell(tmp_path, Plan("kill", steps=(3,), seeds=tuple(long), times=1))
    vector = launch(factory.source(), 16, replace(QUICK, restarts_per_minute=10_000))
    vector.reset()
    assert_same(play(vector, wishes(vector, steps)), expected)
    assert turns(tmp_path) == deaths
    assert reports.kinds().count("died") == reports.kinds().count("replaced") == deaths
    assert all(fault.stage == "step" for fault in reports.faults if fault.kind == "died")


def kill(pid: int) -> None:
    # On a busy machine a worker may be late, and replaced, before its turn has come.
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_workers_killed_from_outside_at_any_moment_are_back_soon_and_change_nothing(
    launch: Launch, reports: Reports
) -> None:
    factory = WalkFactory()
    steps, kills = 4000, 200
    expected = undisturbed(factory, 16, steps)
    vector = launch(factory.source(), 16, replace(QUICK, restarts_per_minute=10_000))
    vector.reset()
    actions = wishes(vector, steps)
    drawn = np.random.default_rng(3)
    records: list[Record] = []
    # Steps on a quick machine may end before the kill, and the next one hit the same dead worker.
    killed = set()
    for cut in range(0, steps, steps // kills):
        pid = list(vector.pids().values())[int(drawn.integers(2))]
        killed.add(pid)
        killer = threading.Timer(float(drawn.uniform(0, 0.01)), kill, (pid,))
        killer.start()
        records += play(vector, actions[cut : cut + steps // kills])
        killer.join()
    assert_same(records, expected)
    seconds = [f.seconds for f in reports.faults if f.kind == "replaced" and f.seconds]
    assert len(killed) > 0.9 * kills
    assert len(seconds) >= len(killed) - 1, "every worker but the last one was missed in time"
    assert float(np.percentile(seconds, 95)) < 2.0


@pytest.mark.slow
def test_a_long_episode_is_brought_back_from_its_last_snapshot(launch: Launch) -> None:
    factory = WalkFactory(tier=Tier.SNAPSHOT)
    steps = REBASE_TICKS + 60
    vector = launch(factory.source(), 4)
    vector.reset()
    actions = wishes(vector, steps)
    records = play(vector, actions[: REBASE_TICKS + 2])
    for pid in vector.pids().values():
        os.kill(pid, signal.SIGKILL)
    records += play(vector, actions[REBASE_TICKS + 2 :])
    assert_same(records, undisturbed(factory, 4, steps))


def test_all_workers_killed_at_once_come_back(launch: Launch, reports: Reports) -> None:
    source = SchoolFactory().source()
    plain = SerialVectorEnv(source, 5, SEEDS)
    vector = launch(source, 5)
    for one in (vector, plain):
        one.reset()
    actions = wishes(plain)
    records: list[Record] = []
    for cut in range(0, 90, 30):
        records += play(vector, actions[cut : cut + 30])
        for pid in vector.pids().values():
            os.kill(pid, signal.SIGKILL)
    assert_same(records, play(plain, actions))
    assert reports.kinds() == ["died", "died", "replaced", "replaced"] * 2


@pytest.mark.parametrize("how", ["sleep", "stop", "hold"])
def test_a_hung_env_is_replaced_within_its_deadline_and_nothing_changes(
    tmp_path: Path, launch: Launch, reports: Reports, how: str
) -> None:
    factory = WalkFactory(str(tmp_path))
    expected = undisturbed(factory, 4, 30)
    seed = next(e.seed for r in expected for e in r.episodes if e.number == 1 and e.length > 3)
    tell(tmp_path, Plan(how, steps=(3,), seeds=(seed,), times=1))
    vector = launch(factory.source())
    vector.reset()
    records, longest = [], 0.0
    for actions in wishes(vector, 30):
        before = time.monotonic()
        records += play(vector, actions[None])
        longest = max(longest, time.monotonic() - before)
    assert_same(records, expected)
    assert reports.kinds() == ["stuck", "hung", "replaced"]
    assert 1.0 < longest < QUICK.step_seconds + 6
    hung = reports.faults[1]
    assert (hung.stage, hung.seed, hung.step) == ("step", seed, 3)
    # A stopped process cannot say where it is; the others do, even without the lock.
    assert ("trouble.py" in hung.traceback) == (how != "stop")


@pytest.mark.parametrize("how", ["exit", "segfault"])
def test_other_ways_to_die_change_nothing_either(
    tmp_path: Path, launch: Launch, reports: Reports, how: str
) -> None:
    factory = WalkFactory(str(tmp_path))
    expected = undisturbed(factory, 4, 20)
    seed = seeds_of(expected)[-1]
    tell(tmp_path, Plan(how, "reset", seeds=(seed,), times=2))
    vector = launch(factory.source())
    vector.reset()
    assert_same(play(vector, wishes(vector, 20)), expected)
    assert reports.kinds() == ["died", "replaced"] * 2
    assert reports.faults[0].stage == "reset"
    how_it_ended = {"exit": "exited with code 9", "segfault": "killed by SIGSEGV"}[how]
    assert how_it_ended in reports.faults[0].error
    assert ("trouble.py" in reports.faults[0].traceback) == (how == "segfault")


def test_an_env_that_raises_once_continues_exactly(
    tmp_path: Path, launch: Launch, reports: Reports
) -> None:
    factory = WalkFactory(str(tmp_path))
    expected = undisturbed(factory, 4, 40)
    seeds = tuple(seeds_of(expected))
    tell(
        tmp_path,
        Plan("runtime", steps=(2,), seeds=seeds[::3], times=2),
        Plan("key", "reset", seeds=seeds[1::3], times=1),
    )
    vector = launch(factory.source())
    vector.reset()
    assert_same(play(vector, wishes(vector, 40)), expected)
    assert "raised" in reports.kinds()
    assert "died" not in reports.kinds()


@pytest.mark.parametrize("tier", [Tier.SNAPSHOT, pytest.param(Tier.REPLAY, marks=pytest.mark.slow)])
def test_deaths_after_a_resume_are_made_good_from_the_saved_state(
    launch: Launch, tier: Tier
) -> None:
    factory = WalkFactory(tier=tier)
    expected = undisturbed(factory, 3, 40)
    first = launch(factory.source(), 3)
    first.reset()
    actions = wishes(first, 40)
    play(first, actions[:17])
    resumed = launch(factory.source(), 3)
    resumed.load_state_dict(through_checkpoint(first.state_dict()))
    records: list[Record] = []
    for step in range(17, 40):
        if step % 7 == 0:
            kill_one(resumed, step % 2)
        records += play(resumed, actions[step : step + 1])
    assert_same(records, expected[17:])


def kill_one(vector: ProcessVectorEnv, worker: int) -> None:
    os.kill(vector.pids()[worker], signal.SIGKILL)


def test_states_are_exchanged_with_the_serial_runtime(launch: Launch) -> None:
    source = SchoolFactory().source()
    plain: VectorEnv = SerialVectorEnv(source, 3, SEEDS)
    plain.reset()
    actions = wishes(plain)
    play(plain, actions[:20])
    there = launch(source, 3)
    there.load_state_dict(through_checkpoint(plain.state_dict()))
    play(there, actions[20:40])
    back = SerialVectorEnv(source, 3, SEEDS)
    back.load_state_dict(through_checkpoint(there.state_dict()))
    play(plain, actions[20:40])
    assert_same(play(back, actions[40:]), play(plain, actions[40:]))


def test_a_picture_comes_from_the_worker_or_not_at_all(tmp_path: Path, launch: Launch) -> None:
    vector = launch(WalkFactory(str(tmp_path)).source(), 2)
    vector.reset()
    play(vector, wishes(vector, 1))
    picture = vector.frame(1)
    assert picture is not None
    np.testing.assert_array_equal(picture, np.ones((2, 2, 3)))
    expected = undisturbed(WalkFactory(), 2, 5)
    tell(tmp_path, Plan("kill", "frame", times=1))
    assert vector.frame(0) is None
    records = play(vector, wishes(vector, 5)[1:])
    assert_same(records, expected[1:])


def test_a_worker_that_leaks_is_replaced_at_an_episodes_end(
    tmp_path: Path, launch: Launch, reports: Reports
) -> None:
    factory = WalkFactory(str(tmp_path))
    expected = undisturbed(factory, 4, 40)
    tell(tmp_path, Plan("leak", steps=(2,), amount=40, times=1))
    watchful = replace(QUICK, memory_growth_mb=200, memory_check_seconds=0.0)
    vector = launch(factory.source(), 4, watchful)
    vector.reset()
    before = vector.pids()
    assert_same(play(vector, wishes(vector, 40)), expected)
    assert "leaked" in reports.kinds()
    assert "died" not in reports.kinds()
    assert set(vector.pids().values()) != set(before.values())
