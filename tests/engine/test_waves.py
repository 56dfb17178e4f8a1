"""How the cases of a suite are dealt to environments."""

from __future__ import annotations

import pytest

from longhaul.core.env import EnvSource, Start
from longhaul.core.errors import ConfigError
from longhaul.core.evaluation import Case, Suite
from longhaul.engine.evaluator import waves
from longhaul.tasks.probe.chase import chase_envs
from tests.engine.diary import DiaryFactory

START: Start = "a place"


def suite(*cases: Case, envs: EnvSource | None = None) -> Suite:
    return Suite("some", envs or DiaryFactory().source(), cases, lambda _: {}, lambda _: 0.0)


def plain(count: int) -> tuple[Case, ...]:
    return tuple(Case(seed) for seed in range(count))


def test_few_environments_play_all_cases_without_waiting_for_each_other() -> None:
    (only,) = waves(suite(*plain(7)), 3)
    assert only.envs == 3
    assert len(only.cases) == 7


def test_there_are_no_more_environments_than_cases() -> None:
    assert waves(suite(*plain(2)), 32)[0].envs == 2


def test_arrays_play_every_case_at_once() -> None:
    assert waves(suite(*plain(40), envs=chase_envs()), 8)[0].envs == 40


def test_cases_with_starts_get_an_environment_each() -> None:
    cases = tuple(Case(seed, START) for seed in range(5))
    found = waves(suite(*cases), 2)
    assert [(wave.first, wave.envs) for wave in found] == [(0, 2), (2, 2), (4, 1)]
    assert [case for wave in found for case in wave.cases] == list(cases)


def test_some_cases_with_starts_are_refused() -> None:
    with pytest.raises(ConfigError, match="either all cases"):
        waves(suite(Case(1), Case(2, START)), 2)
