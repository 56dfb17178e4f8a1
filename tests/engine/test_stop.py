"""When a run ends."""

from __future__ import annotations

import pytest

from longhaul.core.control import Progress
from longhaul.core.errors import ConfigError
from longhaul.engine.config import CollectConfig, EvaluateConfig
from longhaul.engine.loop import FINISHED, after_iterations, after_steps, first_of


@pytest.mark.parametrize(("steps", "reason"), [(99, None), (100, FINISHED), (130, FINISHED)])
def test_a_run_ends_once_its_steps_are_taken(steps: int, reason: str | None) -> None:
    assert after_steps(100)(Progress(3, steps, 5)) == reason


def test_a_run_may_end_after_iterations() -> None:
    until = after_iterations(2)
    assert until(Progress(1, 10**9)) is None
    assert until(Progress(2)) == "2 iterations made"


def test_the_first_condition_with_a_reason_gives_it() -> None:
    asked: list[str] = []

    def silent(progress: Progress) -> str | None:
        asked.append("silent")
        return None

    until = first_of(silent, lambda p: "second", lambda p: "third")
    assert until(Progress()) == "second"
    assert asked == ["silent"]


def test_without_a_reason_the_run_goes_on() -> None:
    assert first_of()(Progress()) is None
    assert first_of(lambda p: None, after_steps(10))(Progress()) is None


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"num_steps": 0}, "collect.num_steps"),
        ({"num_steps": 10, "chunk": 3}, "collect.chunk = 3 must divide"),
        ({"num_steps": 10, "chunk": -5}, "collect.chunk"),
        ({"num_steps": 10, "chunk": 20}, "collect.chunk"),
    ],
)
def test_impossible_rollouts_are_refused(values: dict[str, int], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        CollectConfig(**values)  # type: ignore[arg-type]  # all of them numbers


@pytest.mark.parametrize(
    "values", [{"episodes": 0}, {"num_envs": 0}, {"every_iterations": -1}, {"final_episodes": -1}]
)
def test_impossible_evaluations_are_refused(values: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=f"evaluate.{next(iter(values))}"):
        EvaluateConfig(**values)  # type: ignore[arg-type]  # all of them numbers
