"""Who is told what happens on the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from longhaul.envs.faults import SILENCE, Listeners
from longhaul.runs.stalls import Pulse


class Note(Protocol):
    """Writes down what happened, with the time."""

    def __call__(self, event: str, **facts: Any) -> None:
        """Take one event."""


def unheard(event: str, **facts: Any) -> None:
    """Take note of nothing."""


@dataclass(slots=True)
class Reports:
    """Listeners of a cluster; those that come later than it are put in before the first rollout."""

    listeners: Listeners = SILENCE
    note: Note = unheard
    """Told of collectors that join and of transitions that nothing is learned from."""
    pulse: Pulse = field(default_factory=Pulse)
    """Told of every fragment."""
