"""The threads that share a batch."""

from __future__ import annotations

import threading

import pytest

from longhaul.envs.native.thread_pool import RangePool


@pytest.mark.parametrize(("count", "threads"), [(1, 1), (1, 4), (7, 3), (16, 5), (10, 10)])
def test_every_number_is_covered_once(count: int, threads: int) -> None:
    pool = RangePool(count, threads)
    hits = [0] * count

    def work(begin: int, end: int) -> None:
        for index in range(begin, end):
            hits[index] += 1

    for _ in range(50):
        pool.run(work)
    pool.close()
    assert hits == [50] * count


@pytest.mark.parametrize("bad", [0, 5])
def test_an_exception_reaches_the_caller_and_the_pool_goes_on(bad: int) -> None:
    pool = RangePool(6, 3)

    def work(begin: int, end: int) -> None:
        if begin <= bad < end:
            raise ValueError(f"piece of {bad}")

    for _ in range(3):
        with pytest.raises(ValueError, match=f"piece of {bad}"):
            pool.run(work)
    pool.run(lambda begin, end: None)
    pool.close()


def test_closing_ends_the_threads() -> None:
    before = threading.active_count()
    pool = RangePool(4, 4)
    assert threading.active_count() == before + 3
    pool.close()
    assert threading.active_count() == before
    pool.close()
