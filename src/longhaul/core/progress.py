"""How far a run has come."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Protocol


class Collected(Protocol):
    """What a rollout tells about the work that went into it."""

    @property
    def env_steps(self) -> int:
        """Transitions by rows that really acted."""

    @property
    def episodes(self) -> Sized:
        """Episodes that ended in the rollout."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Counters of finished work; the only notion of time a decision may use."""

    iteration: int = 0
    env_steps: int = 0
    episodes: int = 0

    def after(self, rollout: Collected) -> Progress:
        """Return the progress once this rollout has been learned from."""
        return Progress(
            self.iteration + 1,
            self.env_steps + rollout.env_steps,
            self.episodes + len(rollout.episodes),
        )
