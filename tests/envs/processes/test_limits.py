from __future__ import annotations

from dataclasses import dataclass

from longhaul.envs.config import ProcessesConfig
from longhaul.envs.processes.limits import RestartBudget, StrikeBook


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def test_restarts_in_a_row_are_counted_for_each_worker_until_a_step() -> None:
    budget = RestartBudget(ProcessesConfig(restarts_in_a_row=2), Clock())
    assert [budget.spend(0) for _ in range(2)] == ["", ""]
    assert budget.spend(1) == ""
    budget.stepped()
    assert [budget.spend(0) for _ in range(2)] == ["", ""]
    assert "2 times without a single step" in budget.spend(0)


def test_restarts_within_a_minute_are_counted_and_forgotten_after_it() -> None:
    clock = Clock()
    budget = RestartBudget(ProcessesConfig(restarts_per_minute=2), clock)
    for second in (0.0, 30.0, 61.0, 91.0):
        clock.now = second
        assert budget.spend(0) == ""
        budget.stepped()
    clock.now = 92.0
    assert "2 times within a minute" in budget.spend(0)


def test_failures_to_construct_are_counted_over_all_workers_until_one_succeeds() -> None:
    budget = RestartBudget(ProcessesConfig(construct_restarts=3), Clock())
    assert all(budget.construct_failed(worker) for worker in (0, 1, 0))
    budget.constructed(0)
    assert budget.construct_failed(1)
    assert budget.construct_failed(1)
    assert not budget.construct_failed(1)


def test_only_failures_at_the_same_place_count_together() -> None:
    book = StrikeBook(3)
    assert not any(book.strike(0, 5, "step", step) for step in (1, 2, 3, 1, 2, 3))
    assert book.strike(0, 5, "step", 2)
    assert not book.strike(1, 5, "step", 2)
    book.forget(0)
    assert not book.strike(0, 5, "step", 2)
