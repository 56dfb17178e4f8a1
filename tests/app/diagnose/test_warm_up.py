from __future__ import annotations

import pytest

from longhaul.app.diagnose.doctor import warm_up
from longhaul.core.errors import ConfigError


def test_a_batched_task_is_made_and_stepped() -> None:
    told: list[str] = []
    warm_up(["probe:chase"], told.append)
    assert [line.partition(" after ")[0] for line in told] == [
        "probe:chase: ready",
        "learner: ready",
    ]


def test_of_a_task_without_native_code_only_the_learner_is_compiled() -> None:
    told: list[str] = []
    warm_up(["gym:CartPole-v1"], told.append)
    assert [line.partition(" after ")[0] for line in told] == ["learner: ready"]


def test_a_task_that_is_not_there_is_an_error_when_it_was_asked_for() -> None:
    with pytest.raises(ConfigError, match="chess"):
        warm_up(["chess"], lambda text: None)
