"""What nobody can use is dropped at the faults, counted and told, in every runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from longhaul.core.env import (
    Array,
    BatchedEnv,
    BatchedEnvs,
    Ending,
    EnvEvent,
    SingleEnvs,
    Start,
    VectorEnv,
)
from longhaul.core.errors import NumericalError
from longhaul.envs.build import Supervision, make_vector_env
from longhaul.envs.config import ProcessesConfig, Runtime
from longhaul.envs.faults import Fault, FaultPolicy, Listeners
from longhaul.envs.gymnasium.env import GymnasiumFactory, gymnasium_envs
from longhaul.envs.serial import BatchedVectorEnv
from longhaul.tasks.probe.chase import chase_envs
from tests.contracts.vector_env_contract import (
    SEEDS,
    Record,
    assert_same,
    copied,
    through_checkpoint,
    wishes,
)
from tests.faults.gymnasium_walk import GYMNASIUM_ID
from tests.faults.trouble import Plan, tell
from tests.faults.walk import WalkFactory

Events = list[tuple[int, EnvEvent]]
Open = Callable[..., VectorEnv]


@dataclass
class Opened:
    """Vector envs to close at the end, and the faults they told."""

    vectors: list[VectorEnv] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def open(self, source: SingleEnvs, runtime: Runtime, most_dropped: int = 100) -> VectorEnv:
        faults = FaultPolicy(most_dropped, Listeners(on_fault=self.faults.append))
        vector = make_vector_env(
            source,
            count=2,
            seeds=SEEDS,
            runtime=runtime,
            supervision=Supervision(ProcessesConfig(workers=1), faults),
        )
        self.vectors.append(vector)
        return vector


@pytest.fixture
def opened() -> Iterator[Opened]:
    opened = Opened()
    yield opened
    for vector in opened.vectors:
        vector.close()


def play_on(vector: VectorEnv, steps: int) -> tuple[list[Record], Events]:
    """Return what was seen, and the events by step."""
    records: list[Record] = []
    events: Events = []
    for number, actions in enumerate(wishes(vector, steps)):
        step = vector.step(actions)
        arrays = {**copied(step.slots), "lost": step.slots.lost.copy()}
        records.append(Record(arrays, step.finals, step.episodes))
        events += [(number, event) for event in step.events]
    return records, events


def without_traceback(events: Events) -> list[tuple[int, int, int, dict[str, Any]]]:
    return [
        (step, e.env, e.number, {k: v for k, v in e.facts.items() if k != "traceback"})
        for step, e in events
    ]


@pytest.mark.parametrize(
    "plan",
    [
        Plan("nan", steps=(2,), times=1),
        Plan("infinite reward", steps=(3,), times=1),
        Plan("nan", "reset", seeds=(SEEDS.seed(1, 0), SEEDS.seed(0, 1)), times=1),
        Plan("long reason", steps=(2,), seeds=(SEEDS.seed(0, 1),)),
        Plan("odd metric", steps=(2,), seeds=(SEEDS.seed(1, 1),)),
    ],
    ids=lambda plan: f"{plan.how} in {plan.where}",
)
def test_it_is_dropped_alike_in_the_trainers_process_and_in_workers(
    tmp_path: Path, opened: Opened, plan: Plan
) -> None:
    seen = []
    for runtime in ("serial", "processes"):
        folder = tmp_path / runtime
        folder.mkdir()
        vector = opened.open(WalkFactory(tell(folder, plan)).source(), runtime)
        vector.reset()
        seen.append(play_on(vector, 30))
    (serial, told), (processes, told_by_workers) = seen
    assert told
    assert {event.facts["kind"] for _, event in told} == {"unusable"}
    assert_same(serial, processes)
    assert without_traceback(told) == without_traceback(told_by_workers)
    assert len(opened.faults) == 2 * len(told)
    for record in serial:
        assert all(np.isfinite(array).all() for array in record.arrays.values())


@pytest.mark.parametrize(
    ("garbage", "dtype", "message"),
    [
        ("shape", "float32", "has shape (1,), but its space declares (2,)"),
        ("dtype", "float32", "observation 'obs' is <U1"),
        ("fractions", "uint8", "observation 'obs' is float64"),
        ("huge info", "float32", "100000 characters"),
    ],
)
def test_what_a_gymnasium_env_must_not_return_is_dropped_and_its_env_made_anew(
    tmp_path: Path, opened: Opened, garbage: str, dtype: str, message: str
) -> None:
    told = tell(tmp_path, Plan(garbage, steps=(2,), seeds=(SEEDS.seed(1, 0),)))
    factory = GymnasiumFactory(GYMNASIUM_ID, {"folder": told, "dtype": dtype})
    vector = opened.open(gymnasium_envs(factory), "serial")
    vector.reset()
    records, [(step, event)] = play_on(vector, 4)
    assert (step, event.env, event.ends_episode) == (1, 1, True)
    assert message in event.facts["error"]
    assert records[1].arrays["lost"].tolist() == [False, True]
    assert records[1].arrays["started"].tolist() == [False, True]
    assert not records[2].arrays["lost"].any()
    [fault] = opened.faults
    assert (fault.env, fault.seed, fault.worker) == (1, SEEDS.seed(1, 0), None)
    assert f"env 1, seed {fault.seed}" in str(fault)


@pytest.mark.parametrize("where", ["step", "reset"])
def test_too_much_of_it_ends_the_run_as_numerically_broken(
    tmp_path: Path, opened: Opened, where: str
) -> None:
    tell(tmp_path, Plan("nan", where))
    vector = opened.open(WalkFactory(str(tmp_path)).source(), "serial", most_dropped=5)

    def begin_and_play() -> None:
        vector.reset()
        play_on(vector, 10)

    with pytest.raises(NumericalError, match=r"6 transitions were dropped, .*env\.most_dropped"):
        begin_and_play()


def test_the_count_survives_a_restart(tmp_path: Path, opened: Opened) -> None:
    tell(tmp_path, Plan("nan", steps=(1,)))
    vector = opened.open(WalkFactory(str(tmp_path)).source(), "serial", most_dropped=5)
    vector.reset()
    play_on(vector, 2)
    resumed = opened.open(WalkFactory(str(tmp_path)).source(), "serial", most_dropped=5)
    resumed.load_state_dict(through_checkpoint(vector.state_dict()))
    with pytest.raises(NumericalError, match="6 transitions were dropped"):
        play_on(resumed, 1)


class Spoiling:
    """A batch of chases in which some simulators give garbage at some steps."""

    def __init__(self, count: int, inner: BatchedEnv, garbage: dict[int, tuple[int, str]]) -> None:
        self._inner = inner
        self._garbage = garbage  # env and kind by step
        self._now = np.zeros(count, np.int64)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def bind(self, slots: Any) -> None:
        self._slots = slots
        self._inner.bind(slots)

    def reset(
        self, envs: NDArray[np.int64], seeds: NDArray[np.int64], starts: list[Start | None]
    ) -> None:
        self._inner.reset(envs, seeds, starts)

    def step(self, begin: int, end: int, actions: Array) -> None:
        self._inner.step(begin, end, actions)
        for env in range(begin, end):
            spoiled, kind = self._garbage.get(int(self._now[env]), (-1, ""))
            self._now[env] += 1
            if spoiled == env:
                self._spoil(env, kind)

    def _spoil(self, env: int, kind: str) -> None:
        self._slots.reward[env * self._inner.spec.rows] = float(kind)

    def ending(self, env: int) -> Ending:
        return replace(self._inner.ending(env), metrics={f"m{n}": 0.0 for n in range(200 * env)})


def test_simulators_in_a_batch_are_judged_one_by_one() -> None:
    source = chase_envs(rows=2, time_limit=6)
    garbage = {1: (0, "nan"), 3: (2, "inf")}
    spoiling = BatchedEnvs(source.spec, lambda n: Spoiling(n, source.make(n), garbage))
    vector = BatchedVectorEnv(spoiling, 3, SEEDS, threads=2)
    vector.reset()
    records, events = play_on(vector, 7)
    vector.close()
    found = [(step, event.env, event.facts["error"]) for step, event in events]
    assert found[:3] == [
        (1, 0, "reward is nan"),
        (3, 2, "reward is inf"),
        (5, 1, "the episode ended with 200 metrics, more than 100"),
    ]
    assert records[1].arrays["lost"].tolist() == [True, True, False, False, False, False]
    assert records[1].arrays["started"].tolist() == [True, True, False, False, False, False]
    for record in records:
        assert all(np.isfinite(array).all() for array in record.arrays.values())
