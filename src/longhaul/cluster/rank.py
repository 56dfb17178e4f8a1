"""This process's place among learners that were launched together."""

from __future__ import annotations

import os
from dataclasses import dataclass

from longhaul.core.errors import ConfigError

LEADER = 0


@dataclass(frozen=True, slots=True)
class Rank:
    """A place, and how many there are."""

    number: int
    size: int

    @property
    def is_leader(self) -> bool:
        """Whether it collects, decides and writes, and not only learns."""
        return self.number == LEADER


def launched_rank() -> Rank:
    """Return the place that `torchrun` gave this process; the only one without it."""
    try:
        return Rank(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))
    except ValueError as error:
        raise ConfigError(
            f"RANK and WORLD_SIZE must be numbers, as torchrun sets: {error}"
        ) from error
