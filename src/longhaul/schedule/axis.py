"""What a controller may measure a run's length in."""

from __future__ import annotations

from typing import Literal, assert_never

from longhaul.core.errors import ConfigError
from longhaul.core.progress import Progress

Axis = Literal["env_steps", "iterations", "episodes", "run"]
"""Counted work, or `run`: the share of the whole run's env steps, from 0 to 1."""


def position(progress: Progress, along: Axis, total: int) -> float:
    """Return how far the run has come along an axis; only `run` uses `total`."""
    match along:
        case "env_steps":
            return progress.env_steps
        case "iterations":
            return progress.iteration
        case "episodes":
            return progress.episodes
        case "run":
            return min(1.0, progress.env_steps / total)
        case _:
            assert_never(along)


def check_axis(name: str, along: Axis, total: int) -> None:
    """Refuse a share of a run whose length is unknown."""
    if along == "run" and total < 1:
        raise ConfigError(
            f"schedule.{name} runs along = 'run', so it needs total, the run's env steps; "
            f"total = {total}"
        )


def between(start: float, end: float, share: float) -> float:
    """Return the value `share` of the way: exactly `end` at 1, and never outside by rounding."""
    if share >= 1.0:
        return end
    lower, upper = min(start, end), max(start, end)
    return min(max(start + (end - start) * share, lower), upper)


def words(along: Axis, place: float) -> str:
    """Return a position the way a person says it."""
    match along:
        case "env_steps":
            return f"env step {place:.0f}"
        case "iterations":
            return f"iteration {place:.0f}"
        case "episodes":
            return f"episode {place:.0f}"
        case "run":
            return f"{place:.1%} of the run"
        case _:
            assert_never(along)
