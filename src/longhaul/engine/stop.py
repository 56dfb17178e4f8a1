"""When a run ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from longhaul.core.control import Progress, RunLength

Until = Callable[[Progress], str | None]

LENGTHS = tuple(f"{key} reached" for key in RunLength.__dataclass_fields__)
"""The reason for the end of a run, by the key that holds its length."""
BY_LISTENER = "ended by the listener"


def is_end(reason: str) -> bool:
    """Whether a run that stopped for this reason has come to its end."""
    return reason in LENGTHS or reason.startswith(BY_LISTENER)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a session ended."""

    reason: str
    exit_code: int

    @property
    def is_finished(self) -> bool:
        """Whether the run came to its end."""
        return is_end(self.reason)


def after_iterations(total: int) -> Until:
    """Stop once `total` iterations were made."""
    return lambda progress: f"{total} iterations made" if progress.iteration >= total else None


def at_the_end(length: RunLength) -> Until:
    """Stop after this length."""
    reached = f"{length.key} reached"
    return lambda progress: reached if length.done(progress) >= length.total else None


def first_of(*conditions: Until) -> Until:
    """Stop for the first reason any condition gives."""

    def until(progress: Progress) -> str | None:
        return next(filter(None, (condition(progress) for condition in conditions)), None)

    return until
