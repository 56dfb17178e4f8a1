"""When a run ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from longhaul.core.control import Progress

Until = Callable[[Progress], str | None]

FINISHED = "total_timesteps reached"
FINISHED_ITERATIONS = "total_iterations reached"
BY_LISTENER = "ended by the listener"


def is_end(reason: str) -> bool:
    """Whether a run that stopped for this reason has come to its end."""
    return reason in (FINISHED, FINISHED_ITERATIONS) or reason.startswith(BY_LISTENER)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a session ended."""

    reason: str
    exit_code: int

    @property
    def is_finished(self) -> bool:
        """Whether the run came to its end."""
        return is_end(self.reason)


def after_steps(total: int) -> Until:
    """Stop once `total` steps were taken."""
    return lambda progress: FINISHED if progress.env_steps >= total else None


def after_iterations(total: int) -> Until:
    """Stop once `total` iterations were made."""
    return lambda progress: f"{total} iterations made" if progress.iteration >= total else None


def at_the_end(*, steps: int, iterations: int) -> Until:
    """Stop after this many iterations, or after this many steps if `iterations` is 0."""
    if not iterations:
        return after_steps(steps)
    return lambda progress: FINISHED_ITERATIONS if progress.iteration >= iterations else None


def first_of(*conditions: Until) -> Until:
    """Stop for the first reason any condition gives."""

    def until(progress: Progress) -> str | None:
        return next(filter(None, (condition(progress) for condition in conditions)), None)

    return until
