"""Windows of iterations with values of their own."""

from __future__ import annotations

import pytest

from longhaul.core.errors import ConfigError
from longhaul.tasks.fish.training.curriculum import Windows, parse_windows


def windows(text: str) -> Windows:
    return Windows("entropy", "learn.ent_coef", parse_windows(text, where="here"), 0.01)


def test_the_recorded_windows_hold() -> None:
    recorded = windows("16-24:0.03,25-32:0.02")
    values = [recorded.value_at(iteration) for iteration in (1, 15, 16, 24, 25, 32, 33)]
    assert values == [0.01, 0.01, 0.03, 0.03, 0.02, 0.02, 0.01]


def test_later_windows_win_and_may_have_no_end() -> None:
    open_ended = windows("3+:0.5,5:0.7")
    assert [open_ended.value_at(i) for i in (2, 3, 4, 5, 6, 999)] == [0.01, 0.5, 0.5, 0.7, 0.5, 0.5]


@pytest.mark.parametrize("text", ["5", "5-3:0.1", "0:0.1", "a:0.1", "1-2:x", "1-2:nan"])
def test_a_wrong_window_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="here: "):
        parse_windows(text, where="here")
