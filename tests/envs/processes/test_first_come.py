"""Environments that act again as soon as they have answered."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from longhaul.core.env import Array, Episode, SingleEnvs, VectorEnv
from longhaul.core.errors import EnvError
from longhaul.core.seeds import EpisodeSeeds, ListedSeeds
from longhaul.core.spaces import Tier
from longhaul.envs.config import ProcessesConfig
from longhaul.envs.faults import FaultPolicy
from longhaul.envs.processes.first_come import FirstComeVectorEnv
from longhaul.envs.serial import SerialVectorEnv
from tests.contracts.vector_env_contract import (
    SEEDS,
    Make,
    VectorEnvContract,
    through_checkpoint,
)
from tests.envs.processes.conftest import QUICK, Reports
from tests.envs.school import ROWS, SchoolFactory
from tests.faults.trouble import Plan, tell
from tests.faults.walk import WalkFactory

pytestmark = pytest.mark.thorough

Open = Callable[..., FirstComeVectorEnv]
Course = list[tuple[Array, float, bool, bool, bool]]  # obs, reward, terminated, truncated, started


@pytest.mark.slow
class TestFirstComeContract(VectorEnvContract):
    @pytest.fixture
    def make(self) -> Iterator[Make]:
        made: list[VectorEnv] = []

        def make(count: int, seeds: EpisodeSeeds) -> VectorEnv:
            source = SchoolFactory().source()
            if isinstance(seeds, ListedSeeds):
                made.append(SerialVectorEnv(source, count, seeds))
            else:
                config = ProcessesConfig(workers=2)
                made.append(FirstComeVectorEnv(source, count, seeds, config=config))
            return made[-1]

        yield make
        for vector in made:
            vector.close()


@pytest.fixture
def open_envs(reports: Reports) -> Iterator[Open]:
    made: list[FirstComeVectorEnv] = []

    def open_envs(
        source: SingleEnvs, count: int = 3, config: ProcessesConfig = QUICK
    ) -> FirstComeVectorEnv:
        faults = FaultPolicy(listeners=reports.listeners)
        vector = FirstComeVectorEnv(
            source, count, SEEDS, config=replace(config, workers=0), faults=faults
        )
        made.append(vector)
        return vector

    yield open_envs
    for vector in made:
        vector.close()


def wishes(envs: Array, steps: Array) -> Array:
    """Return actions that depend on nothing but the env and how many it took before."""
    wished: Array = (envs + steps * steps) % 3
    return wished


def courses(vector: FirstComeVectorEnv, least: int) -> tuple[list[Course], list[Episode]]:
    """Play until every env took `least` steps, by actions that depend on the env's own step."""
    taken = np.zeros(vector.count, np.int64)
    seen: list[Course] = [[] for _ in range(vector.count)]
    episodes: list[Episode] = []
    rows = np.arange(vector.count)
    while True:
        vector.send(rows, wishes(rows, taken[rows]))
        arrivals = vector.gather(0.5 if taken.min() < least else 1.0)
        episodes += arrivals.step.episodes
        rows, slots = arrivals.rows, arrivals.step.slots
        for row in rows.tolist():
            seen[row].append(
                (
                    slots.obs["place"][row].copy(),
                    float(slots.reward[row]),
                    bool(slots.terminated[row]),
                    bool(slots.truncated[row]),
                    bool(slots.started[row]),
                )
            )
        taken[rows] += 1
        if taken.min() >= least:
            break
    final = vector.gather(1.0)
    for row in final.rows.tolist():
        taken[row] += 1
    return seen, [*episodes, *final.step.episodes]


def in_lockstep(count: int, steps: int) -> list[Course]:
    vector = SerialVectorEnv(WalkFactory().source(), count, SEEDS)
    vector.reset()
    seen: list[Course] = [[] for _ in range(count)]
    for step in range(steps):
        slots = vector.step(wishes(np.arange(count), np.full(count, step))).slots
        for row in range(count):
            seen[row].append(
                (
                    slots.obs["place"][row].copy(),
                    float(slots.reward[row]),
                    bool(slots.terminated[row]),
                    bool(slots.truncated[row]),
                    bool(slots.started[row]),
                )
            )
    return seen


def assert_same_courses(found: list[Course], expected: list[Course]) -> None:
    for course, whole in zip(found, expected, strict=True):
        for one, two in zip(course, whole, strict=False):
            np.testing.assert_array_equal(one[0], two[0])
            assert one[1:] == two[1:]


def test_each_env_goes_its_own_way_as_it_would_in_lockstep(tmp_path: Path, open_envs: Open) -> None:
    slow = tuple(SEEDS.seed(2, episode) for episode in range(50))
    tell(tmp_path, Plan("slow", seeds=slow, amount=0.01))
    vector = open_envs(WalkFactory(str(tmp_path)).source())
    vector.reset()
    seen, episodes = courses(vector, 8)
    assert min(len(seen[0]), len(seen[1])) > len(seen[2]) >= 8
    assert_same_courses(seen, in_lockstep(3, 80))
    ended = [sum(one[2] or one[3] for one in course) for course in seen]
    assert len(episodes) >= sum(ended)
    assert all(episode.seed == SEEDS.seed(episode.env, episode.number) for episode in episodes)


@pytest.mark.parametrize("tier", [Tier.REPLAY, pytest.param(Tier.SNAPSHOT, marks=pytest.mark.slow)])
def test_deaths_change_nothing_in_any_envs_course(
    tmp_path: Path, open_envs: Open, reports: Reports, tier: Tier
) -> None:
    doomed = tuple(SEEDS.seed(env, 1) for env in range(3))
    tell(
        tmp_path,
        Plan("kill", steps=(2,), seeds=doomed, times=1),
        Plan("kill", "reset", seeds=(SEEDS.seed(1, 2),), times=1),
        Plan("key", steps=(1,), seeds=(SEEDS.seed(0, 2),), times=1),
    )
    vector = open_envs(WalkFactory(str(tmp_path), tier).source())
    vector.reset()
    seen, _ = courses(vector, 30)
    assert_same_courses(seen, in_lockstep(3, 300))
    assert all(len(course) >= 30 for course in seen)
    assert reports.kinds().count("died") == reports.kinds().count("replaced") == 4
    assert reports.kinds().count("raised") == 1


def test_a_hung_env_holds_up_nobody_but_itself(
    tmp_path: Path, open_envs: Open, reports: Reports
) -> None:
    tell(tmp_path, Plan("sleep", steps=(2,), seeds=(SEEDS.seed(1, 0),), times=1))
    vector = open_envs(WalkFactory(str(tmp_path)).source())
    vector.reset()
    seen, _ = courses(vector, 4)
    assert reports.kinds() == ["stuck", "hung", "replaced"]
    assert min(len(seen[0]), len(seen[2])) > 10 * len(seen[1])
    assert_same_courses([seen[1]], [in_lockstep(3, 20)[1]])


def test_a_saved_state_goes_on_as_if_nothing_had_happened(open_envs: Open) -> None:
    expected = in_lockstep(3, 300)
    vector = open_envs(WalkFactory().source())
    vector.reset()
    seen, _ = courses(vector, 5)
    taken = [vector.state_dict()["ledger"]["lengths"][env] for env in range(3)]
    assert all(length >= 0 for length in taken)
    resumed = open_envs(WalkFactory().source())
    resumed.load_state_dict(through_checkpoint(vector.state_dict()))
    for name, part in vector.slots.obs.items():
        np.testing.assert_array_equal(resumed.slots.obs[name], part)
    for pid in resumed.pids().values():
        os.kill(pid, signal.SIGKILL)
    one, other = (v.step(np.ones(3, np.int64)) for v in (vector, resumed))
    np.testing.assert_array_equal(one.slots.obs["place"], other.slots.obs["place"])
    assert_same_courses(seen, expected)


def test_nothing_is_saved_or_reset_while_actions_are_under_way(open_envs: Open) -> None:
    vector = open_envs(SchoolFactory().source(), 2)
    vector.reset()
    vector.send(np.arange(2 * ROWS), np.zeros(2 * ROWS, np.int64))
    for call in (vector.state_dict, vector.reset):
        with pytest.raises(EnvError, match="while actions are pending"):
            call()
    assert vector.gather(1.0).rows.tolist() == list(range(2 * ROWS))
    assert vector.gather(1.0).rows.size == 0
