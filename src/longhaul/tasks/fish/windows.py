"""A setting that has other values in windows of iterations."""

from __future__ import annotations

import math
from dataclasses import dataclass

from longhaul.core.control import Decision, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Assignment
from longhaul.tasks.fish.grammar import number, pairs, positive

FORM = "a-b:value, a:value or a+:value"


@dataclass(frozen=True, slots=True)
class Window:
    """Iterations `first` to `last`, both included, with the value that holds in them."""

    first: int
    last: float  # infinite for a window without an end
    value: float

    def holds(self, iteration: int) -> bool:
        """Whether an iteration, from 1, lies in the window."""
        return self.first <= iteration <= self.last


def parse_windows(text: str, *, where: str) -> tuple[Window, ...]:
    """Return the windows a text describes."""
    found = pairs(text, _span, number, where=where, form=FORM)
    return tuple(Window(first, last, value) for (first, last), value in found)


def _span(text: str) -> tuple[int, float]:
    if text.endswith("+"):
        return positive(text[:-1]), math.inf
    first, dash, last = text.partition("-")
    span = positive(first), positive(last if dash else first)
    if span[1] < span[0]:
        raise ValueError(f"the window {text} ends before it begins")
    return span


@dataclass(frozen=True, slots=True)
class WindowsState:
    """Nothing: the value follows from the iteration."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Give a setting the value of the last window that holds, and its base outside of all."""

    name: str
    setting: str
    windows: tuple[Window, ...]
    base: float

    def __post_init__(self) -> None:
        if not self.windows:
            raise ConfigError(f"schedule.{self.name} has no windows")

    @property
    def reads(self) -> tuple[str, ...]:
        """No metric."""
        return ()

    @property
    def writes(self) -> tuple[str, ...]:
        """The setting."""
        return (self.setting,)

    @property
    def follows(self) -> tuple[str, ...]:
        """The setting: outside of all windows it has its config value."""
        return (self.setting,)

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """All values it may assign."""
        values = {self.base, *(window.value for window in self.windows)}
        return tuple(Assignment(self.setting, value) for value in sorted(values))

    def initial(self) -> WindowsState:
        """Return the empty state."""
        return WindowsState()

    def value_at(self, iteration: int) -> float:
        """Return the value of an iteration, from 1."""
        held = [window.value for window in self.windows if window.holds(iteration)]
        return held[-1] if held else self.base

    def decide(self, state: WindowsState, view: View) -> Decision[WindowsState]:
        """Set the value of the next iteration."""
        iteration = view.progress.iteration + 1
        value = self.value_at(iteration)
        if view.settings.values()[self.setting] == value:
            return Decision(state)
        return Decision(state, (Assignment(self.setting, value),), f"iteration {iteration}")
