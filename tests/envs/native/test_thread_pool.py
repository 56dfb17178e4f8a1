"""Threads that share simulators: each is done once, in any order, and nobody is waited for."""

from __future__ import annotations

import gc
import threading
from typing import Any, NamedTuple, cast

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.env import Array
from longhaul.core.labor import bind
from longhaul.core.native import fetch
from longhaul.envs.native.scheduler import new_board, offer_all, take_next
from longhaul.envs.native.thread_pool import Chain, Crew, NativeStep, run_alone

STUBBORN = 5
"""The simulator that leaves its chain after the first link."""


def _offer(board: Array) -> None:
    offer_all(board)


def _take(board: Array, member: int) -> int:
    return int(take_next(board, member))


# Compiled before the tests begin, so that no example takes longer than the others.
begin = cast(Any, numba.njit)("void(int64[::1])")(_offer)
take = cast(Any, numba.njit)("int64(int64[::1], int64)")(_take)


class Hits(NamedTuple):
    """What is counted."""

    wishes: Array  # [N] int64
    totals: Array  # [N] int64
    work: int


def _count(pointer: Any, index: int, member: int) -> int:
    """Count a visit, after work whose length depends on the simulator."""
    hits = fetch(pointer)
    total = 0
    for turn in range(hits.work * (index % 4)):
        total ^= turn * index
    hits.totals[index] += hits.wishes[index] + (total >> 62)
    return 1 if index == STUBBORN else 0


def _count_thousands(pointer: Any, index: int, member: int) -> int:
    fetch(pointer).totals[index] += 1000
    return 0


class Bench:
    """Simulators that only count."""

    def __init__(self, count: int, work: int = 0) -> None:
        self.wishes, self.totals = np.zeros(count, np.int64), np.zeros(count, np.int64)
        hits = Hits(self.wishes, self.totals, work)
        self.chain = Chain(bind(_count, hits), bind(_count_thousands, hits))
        self.finished: list[tuple[int, int]] = []
        self.step = NativeStep(self.chain, self._take, self._finish)

    def _take(self, actions: Array) -> None:
        self.wishes[:] = actions

    def _finish(self, index: int, done: int) -> None:
        self.finished.append((index, done))
        run_alone(self.chain.after(done), np.zeros_like(self.totals), index, index + 1)


@pytest.mark.parametrize(("count", "threads"), [(1, 1), (1, 4), (7, 3), (16, 2), (10, 10)])
def test_every_simulator_is_stepped_once_a_run(count: int, threads: int) -> None:
    bench, crew = Bench(count, work=50), Crew(count, threads)
    for _ in range(300):
        crew.run(bench.step, np.arange(count))
    crew.close()
    assert bench.totals.tolist() == [300 * (index + 1000) for index in range(count)]
    assert bench.finished == ([(STUBBORN, 1)] * 300 if count > STUBBORN else [])


@given(st.integers(1, 40), st.integers(1, 6), st.data())
def test_whoever_asks_gets_a_simulator_that_nobody_else_has(
    count: int, members: int, data: st.DataObject
) -> None:
    board = new_board(count, members)
    assert take(board, 0) == -1  # nothing is to be had before a run
    begin(board)
    asking = data.draw(st.lists(st.integers(0, members - 1), min_size=count, max_size=count + 9))
    taken = [take(board, member) for member in asking]
    assert sorted(taken[:count]) == list(range(count))
    assert set(taken[count:]) <= {-1}


def test_a_member_takes_its_own_block_from_the_front_and_then_the_others_from_the_back() -> None:
    board = new_board(8, 2)
    begin(board)
    assert [take(board, 0) for _ in range(6)] == [0, 1, 2, 3, 7, 6]
    assert [take(board, 1) for _ in range(3)] == [4, 5, -1]


def test_members_that_fell_asleep_are_woken() -> None:
    """Between two runs a time passes in which a member that looks for work gives up."""
    bench, crew = Bench(3, work=20_000), Crew(3, 3)
    pause = threading.Event()
    for _ in range(20):
        crew.run(bench.step, np.ones(3, np.int64))
        pause.wait(0.001)
    crew.close()
    assert bench.totals.tolist() == [20 * 1001] * 3


def test_a_crew_may_do_one_chain_and_then_another() -> None:
    first, second, crew = Bench(8), Bench(8), Crew(8, 2)
    for _ in range(50):
        crew.run(first.step, np.ones(8, np.int64))
        crew.run(second.step, np.full(8, 2))
    crew.close()
    assert first.totals.tolist() == [50 * 1001] * 8
    assert second.totals.tolist() == [50 * 1002] * 8


def test_an_exception_of_the_rest_reaches_the_caller_and_the_crew_goes_on() -> None:
    bench, crew = Bench(8), Crew(8, 2)

    def fail(index: int, done: int) -> None:
        raise ValueError(f"simulator {index}")

    for _ in range(3):
        with pytest.raises(ValueError, match=f"simulator {STUBBORN}"):
            crew.run(NativeStep(bench.chain, lambda actions: None, fail), np.zeros(8, np.int64))
    crew.run(bench.step, np.zeros(8, np.int64))
    crew.close()
    assert bench.totals[STUBBORN] == 1000
    assert bench.totals[0] == 4000


def test_closing_ends_the_threads() -> None:
    before = threading.active_count()
    crew = Crew(4, 4)
    assert threading.active_count() == before + 3
    crew.close()
    assert threading.active_count() == before
    crew.close()


def test_a_crew_nobody_holds_any_more_ends_its_threads() -> None:
    before = threading.active_count()
    Crew(4, 3)
    gc.collect()
    assert threading.active_count() == before
