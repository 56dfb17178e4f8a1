"""Episodes that cannot be finished: lost, set aside, told of, and never more than allowed."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from longhaul.core.env import EnvEvent
from longhaul.core.errors import EnvError, NumericalError
from longhaul.core.seeds import ListedSeeds
from longhaul.core.spaces import Tier
from longhaul.envs.gymnasium.env import GymnasiumFactory, gymnasium_envs
from longhaul.envs.processes.repro import reproduce, write_repro
from longhaul.envs.processes.vector import ProcessVectorEnv
from tests.contracts.vector_env_contract import Record, copied, wishes
from tests.envs.processes.conftest import QUICK, Launch, Reports
from tests.faults.gymnasium_walk import GYMNASIUM_ID
from tests.faults.trouble import EXCEPTIONS, Plan, tell
from tests.faults.walk import WalkFactory

pytestmark = pytest.mark.thorough

Lost = list[tuple[int, EnvEvent]]


def play_on(vector: ProcessVectorEnv, steps: int) -> tuple[list[Record], Lost]:
    """Return what was seen, and the events by step."""
    records, events = [], []
    for number, actions in enumerate(wishes(vector, steps)):
        step = vector.step(actions)
        arrays = {**copied(step.slots), "lost": step.slots.lost.copy()}
        records.append(Record(arrays, step.finals, step.episodes))
        events += [(number, event) for event in step.events]
    return records, events


def listed(count: int) -> ListedSeeds:
    """Return seeds that are the env's number in the first episode, far from it later."""
    return ListedSeeds((*range(count), *range(1000, 1000 + 20 * count)), envs=count)


@pytest.mark.parametrize("how", ["kill", "runtime", pytest.param("sleep", marks=pytest.mark.slow)])
def test_a_seed_that_fails_three_times_is_set_aside_and_can_be_seen_again(
    tmp_path: Path, launch: Launch, reports: Reports, how: str
) -> None:
    tell(tmp_path, Plan(how, steps=(2,), seeds=(1,)))
    vector = launch(WalkFactory(str(tmp_path)).source(), 4, seeds=listed(4))
    vector.reset()
    before = copied(vector.slots)["obs.place"]
    records, events = play_on(vector, 3)
    [(number, event)] = events
    assert (number, event.env, event.number, event.ends_episode) == (1, 1, 0, True)
    kind = {"kill": "died", "sleep": "hung", "runtime": "raised"}[how]
    assert event.facts["kind"] == kind
    assert event.facts["quarantined"]
    assert (event.facts["seed"], event.facts["step"], event.facts["stage"]) == (1, 2, "step")
    assert reports.kinds().count(kind) == 3
    arrays = records[1].arrays
    assert arrays["lost"].tolist() == [False, True, False, False]
    assert arrays["reward"][1] == 0.0
    assert arrays["started"][1]
    assert arrays["obs.place"][1, 1] == 0.0
    assert not arrays["terminated"][1]
    assert not records[2].arrays["lost"].any()
    assert before.shape == arrays["obs.place"].shape

    [repro] = reports.repros
    path = write_repro(repro, tmp_path / "crash")
    shown = reproduce(path, config=QUICK)
    assert shown.is_same
    assert (shown.happened, shown.step) == (kind, 2)


def test_a_set_aside_seed_stays_so_after_a_resume(tmp_path: Path, launch: Launch) -> None:
    tell(tmp_path, Plan("runtime", "reset", seeds=(1,)))
    seeds = ListedSeeds((0, 1), envs=1)
    vector = launch(WalkFactory(str(tmp_path), longest=3).source(), 1, seeds=seeds)
    vector.reset()
    _, events = play_on(vector, 12)
    assert [event.event for _, event in events][:3] == [
        "episode_lost",
        "seed_skipped",
        "seed_skipped",
    ]
    resumed = launch(WalkFactory(str(tmp_path), longest=3).source(), 1, seeds=seeds)
    resumed.load_state_dict(vector.state_dict())
    _, events = play_on(resumed, 8)
    assert {event.event for _, event in events} == {"seed_skipped"}


CASES = [(name, where) for name in EXCEPTIONS for where in ("reset", "step", "late step")]


LATE = 35


def lasting(count: int) -> list[int]:
    """Return seeds whose walks, left alone, go on beyond the late step."""
    found: list[int] = []
    walk = WalkFactory(longest=LATE + 5)()
    for seed in itertools.count():
        walk.reset(seed, None)
        if all(walk.step(np.ones(1, np.int64)) is None for _ in range(LATE)):
            found.append(seed)
        if len(found) == count:
            return found
    raise AssertionError


def test_every_exception_is_told_with_its_place_and_last_actions(
    tmp_path: Path, launch: Launch, reports: Reports
) -> None:
    count = len(CASES)
    assert count == 24
    seeds = lasting(count)
    plans = [
        Plan(name, where.split()[-1], (LATE,) if where == "late step" else (1,), seeds=(seed,))
        if where != "reset"
        else Plan(name, "reset", seeds=(seed,))
        for seed, (name, where) in zip(seeds, CASES, strict=True)
    ]
    tell(tmp_path, *plans)
    factory = WalkFactory(str(tmp_path), longest=LATE + 5)
    dealt = ListedSeeds((*seeds, *range(10**6, 10**6 + 60 * count)), envs=count)
    vector = launch(factory.source(), count, seeds=dealt)
    vector.reset()
    events: dict[int, EnvEvent] = {}
    for _ in range(LATE + 1):
        for event in vector.step(np.ones(count, np.int64)).events:
            events.setdefault(event.env, event)
    vector.close()
    assert sorted(events) == list(range(count))
    for env, event in events.items():
        name, where = CASES[env]
        facts = event.facts
        assert facts["env_id"] == "test:walk"
        assert facts["seed"] == seeds[env]
        assert facts["step"] == {"reset": 0, "step": 1, "late step": LATE}[where]
        # The newest 32, and no more of them.
        assert facts["last_actions"] == [[1]] * {"reset": 0, "step": 1, "late step": 32}[where]
        assert type(EXCEPTIONS[name]()).__name__ in facts["traceback"]
        assert "trouble.py" in facts["traceback"]
    assert "died" not in reports.kinds()


@pytest.mark.parametrize("tier", [Tier.RESTART, Tier.NONE])
def test_without_exact_states_a_dead_workers_episodes_are_lost_and_never_ended(
    tmp_path: Path, launch: Launch, reports: Reports, tier: Tier
) -> None:
    tell(tmp_path, Plan("kill", steps=(3,), seeds=(2,)))
    vector = launch(WalkFactory(str(tmp_path), tier).source(), 4, seeds=listed(4))
    vector.reset()
    records, events = play_on(vector, 4)
    assert [event.env for _, event in events] == [2, 3]
    assert [event.facts["quarantined"] for _, event in events] == [False, False]
    assert records[2].arrays["lost"].tolist() == [False, False, True, True]
    assert not records[2].arrays["terminated"][2:].any()
    assert not records[2].arrays["truncated"][2:].any()
    assert records[2].arrays["started"][2:].all()
    assert {episode.env for episode in records[2].episodes} <= {0, 1}
    assert reports.kinds() == ["died", "replaced"]


@pytest.mark.parametrize("garbage", ["nan", "infinite reward", "long reason", "odd metric"])
def test_a_transition_nobody_can_use_is_dropped_and_told(
    tmp_path: Path, launch: Launch, garbage: str
) -> None:
    tell(tmp_path, Plan(garbage, steps=(2,), seeds=(1,)))
    vector = launch(WalkFactory(str(tmp_path)).source(), 2, seeds=listed(2))
    vector.reset()
    records, events = play_on(vector, 4)
    [(number, event)] = events
    assert (number, event.env, event.facts["kind"]) == (1, 1, "unusable")
    assert records[1].arrays["lost"].tolist() == [False, True]
    for record in records:
        assert np.isfinite(record.arrays["obs.place"]).all()
        assert np.isfinite(record.arrays["reward"]).all()


@pytest.mark.parametrize(
    ("garbage", "dtype", "message"),
    [
        ("shape", "float32", "has shape"),
        ("dtype", "float32", "observation 'obs' is <U1"),
        ("fractions", "uint8", "observation 'obs' is float64"),
        ("huge info", "float32", "100000 characters"),
    ],
)
def test_what_a_gymnasium_env_must_not_return_is_dropped_and_told(
    tmp_path: Path, launch: Launch, garbage: str, dtype: str, message: str
) -> None:
    source = gymnasium_envs(
        GymnasiumFactory(GYMNASIUM_ID, {"folder": str(tmp_path), "dtype": dtype})
    )
    tell(tmp_path, Plan(garbage, steps=(2,), seeds=(1,)))
    vector = launch(source, 2, replace(QUICK, workers=1, step_seconds=20.0), listed(2))
    vector.reset()
    _, events = play_on(vector, 3)
    [(_, event)] = events
    assert event.facts["kind"] == "unusable"
    assert message in event.facts["error"]


def test_too_many_dropped_transitions_end_the_run(tmp_path: Path, launch: Launch) -> None:
    tell(tmp_path, Plan("nan", steps=(1,)))
    vector = launch(
        WalkFactory(str(tmp_path)).source(), 2, replace(QUICK, workers=1), most_dropped=5
    )
    vector.reset()
    with pytest.raises(NumericalError, match="6 transitions were dropped"):
        play_on(vector, 10)


def test_resets_that_always_fail_end_the_run(tmp_path: Path, launch: Launch) -> None:
    vector = launch(
        WalkFactory(tell(tmp_path, Plan("key", "reset"))).source(),
        2,
        replace(QUICK, most_quarantined=5, workers=1),
    )
    with pytest.raises(EnvError, match="seeds are quarantined"):
        vector.reset()


@pytest.mark.parametrize("how", ["exit", pytest.param("runtime", marks=pytest.mark.slow)])
def test_an_env_that_cannot_be_made_ends_the_run_soon(
    tmp_path: Path, launch: Launch, reports: Reports, how: str
) -> None:
    began = time.monotonic()
    with pytest.raises(EnvError, match="cannot be made in a worker process"):
        launch(WalkFactory(tell(tmp_path, Plan(how, "construct"))).source())
    assert time.monotonic() - began < 60
    starts = len({mark["pid"] for mark in reports.marks if mark["stage"] == "import_start"})
    assert 2 < starts <= 2 + 10


def test_a_stuck_stage_is_named_while_it_is_stuck(
    tmp_path: Path, launch: Launch, reports: Reports
) -> None:
    plan = Plan("sleep", "construct", times=1)
    config = replace(QUICK, construct_seconds=3.0, workers=1)
    launch(WalkFactory(tell(tmp_path, plan)).source(), 1, config)
    # A busy machine may be slow to start the interpreter as well, which is told too.
    stuck = next(fault for fault in reports.faults if fault.stage == "construct")
    assert stuck.kind == "stuck"
    assert reports.kinds()[-3:] == ["stuck", "hung", "replaced"]
    first = [mark["stage"] for mark in reports.marks if mark["pid"] == stuck.pid]
    assert first == ["import_start", "import_done", "construct_start"]


def test_a_worker_that_never_gets_anywhere_is_given_up_and_its_rows_stay_empty(
    tmp_path: Path, launch: Launch, reports: Reports
) -> None:
    vector = launch(
        WalkFactory(str(tmp_path), Tier.NONE).source(),
        4,
        replace(QUICK, restarts_per_minute=3, restarts_in_a_row=2),
        listed(4),
    )
    vector.reset()
    tell(tmp_path, Plan("kill", steps=(1,), seeds=(2, *range(1000, 1200))))
    records, events = play_on(vector, 6)
    assert "env_retired" in [event.event for _, event in events]
    assert records[-1].arrays["active"].tolist() == [True, True, False, False]
    assert not records[-1].arrays["reward"][2:].any()
    state = vector.state_dict()
    assert state["processes"]["retired"] == [2, 3]
    tell(tmp_path)
    resumed = launch(WalkFactory("", Tier.NONE).source(), 4, seeds=listed(4))
    resumed.load_state_dict(state)
    assert resumed.slots.active.all()
    play_on(resumed, 3)


def test_too_few_envs_left_end_the_run(tmp_path: Path, launch: Launch) -> None:
    tell(tmp_path, Plan("kill", steps=(2,)))
    vector = launch(WalkFactory(str(tmp_path)).source(), 2, replace(QUICK, restarts_per_minute=2))
    vector.reset()
    with pytest.raises(EnvError, match="only 0 of 2 environments are left: worker"):
        play_on(vector, 3)
