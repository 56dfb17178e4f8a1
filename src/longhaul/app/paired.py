"""Comparing two policies on the same cases, case by case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from longhaul.core.env import Episode
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import Seeds

RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Paired:
    """The differences between one policy and another over the cases both played."""

    against: str
    cases: int
    difference: float  # ours minus theirs, mean over the cases
    low: float  # 95 % interval, by drawing cases again and again
    high: float
    better: int  # cases
    worse: int

    def as_text(self) -> str:
        """Return the comparison in one line."""
        return (
            f"minus {self.against}: {self.difference:+.4f}, 95 % interval "
            f"{self.low:+.4f} to {self.high:+.4f}, over {self.cases} paired episodes; "
            f"better in {self.better}, worse in {self.worse}"
        )


def compare(
    ours: Sequence[Episode],
    theirs: Sequence[Episode],
    score: Callable[[Episode], float],
    *,
    against: str,
) -> Paired:
    """Return how much better ours did than theirs, paired by the episodes' seeds."""
    other = {episode.seed: score(episode) for episode in theirs}
    pairs = [(score(one), other[one.seed]) for one in ours if one.seed in other]
    if not pairs:
        raise ConfigError(f"{against} and this policy have no episode in common")
    difference = np.array([a - b for a, b in pairs])
    generator = Seeds(0).generator("paired")
    draws = generator.integers(0, len(pairs), (RESAMPLES, len(pairs)))
    low, high = np.percentile(difference[draws].mean(axis=1), (2.5, 97.5))
    return Paired(
        against=against,
        cases=len(pairs),
        difference=float(difference.mean()),
        low=float(low),
        high=float(high),
        better=int((difference > 0).sum()),
        worse=int((difference < 0).sum()),
    )
