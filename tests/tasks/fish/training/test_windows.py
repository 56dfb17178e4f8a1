"""Windows of iterations with separate values."""

from __future__ import annotations

import pytest

from longhaul.core.config import convert
from longhaul.core.errors import ConfigError
from longhaul.tasks.fish.training.curriculum import ValueWindows
from longhaul.tasks.fish.training.options import IterationWindow, TrainingOptions


def windows(*windows: IterationWindow) -> ValueWindows:
    return ValueWindows("entropy", "learn.ent_coef", windows, 0.01)


def test_the_recorded_windows_hold() -> None:
    recorded = windows(IterationWindow(16, 0.03, last=24), IterationWindow(25, 0.02, last=32))
    values = [recorded.value_at(iteration) for iteration in (1, 15, 16, 24, 25, 32, 33)]
    assert values == [0.01, 0.01, 0.03, 0.03, 0.02, 0.02, 0.01]


def test_later_windows_win_and_may_have_no_end() -> None:
    open_ended = windows(IterationWindow(3, 0.5), IterationWindow(5, 0.7, last=5))
    assert [open_ended.value_at(i) for i in (2, 3, 4, 5, 6, 999)] == [0.01, 0.5, 0.5, 0.7, 0.5, 0.5]


@pytest.mark.parametrize(
    "window",
    [
        {"first": 5},
        {"first": 5, "last": 3, "value": 0.1},
        {"first": 0, "value": 0.1},
        {"first": "a", "value": 0.1},
        {"first": 1, "last": 2, "value": "x"},
        {"first": 1, "last": 2, "value": float("nan")},
    ],
)
def test_a_wrong_window_is_refused(window: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"options\.training\.entropy_windows"):
        convert({"entropy_windows": [window]}, TrainingOptions, where="options.training")
