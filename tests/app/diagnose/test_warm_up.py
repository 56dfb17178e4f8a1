from __future__ import annotations

import pytest

from longhaul.app.diagnose.doctor import warm_up
from longhaul.core.errors import ConfigError


def test_a_batched_task_is_made_and_stepped() -> None:
    told: list[str] = []
    warm_up(["probe:chase"], told.append)
    assert len(told) == 1
    assert told[0].startswith("probe:chase: ready after ")


def test_a_task_without_native_code_is_left_alone() -> None:
    told: list[str] = []
    warm_up(["gym:CartPole-v1"], told.append)
    assert told == []


def test_a_task_that_is_not_there_is_an_error_when_it_was_asked_for() -> None:
    with pytest.raises(ConfigError, match="chess"):
        warm_up(["chess"], lambda text: None)
