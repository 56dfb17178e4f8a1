"""When a run ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longhaul.core.control import Progress, RunLength
from longhaul.core.errors import ConfigError
from longhaul.engine.config import CollectConfig, EvaluateConfig
from longhaul.engine.stop import LENGTHS, after_iterations, at_the_end, first_of, is_end


@pytest.mark.parametrize("key", ["total_timesteps", "total_iterations", "total_episodes"])
@pytest.mark.parametrize("done", [99, 100, 130])
def test_a_run_ends_once_its_length_is_done(key: str, done: int) -> None:
    counter = {"total_timesteps": "env_steps", "total_iterations": "iteration"}
    progress = replace(Progress(1, 1, 1), **{counter.get(key, "episodes"): done})
    reason = at_the_end(RunLength(**{key: 100}))(progress)
    assert reason == (None if done < 100 else f"{key} reached")
    assert reason is None or is_end(reason)


def test_only_the_length_itself_ends_a_run() -> None:
    assert set(LENGTHS) == {
        f"total_{unit} reached" for unit in ("timesteps", "iterations", "episodes")
    }
    assert not is_end("the patience was reached")


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
    assert first_of(lambda p: None, at_the_end(RunLength(10)))(Progress()) is None


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
