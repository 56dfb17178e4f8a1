"""How sure one can be that one policy, or one way of training, is better than another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from longhaul.core.seeds import Seeds
from longhaul.report.series import Numbers

RESAMPLES = 5000
LEVEL = 0.95
LEAST_SCORES = 5
"""From so many scores on an interval is drawn. Draws from two scores never lie outside of them, so
what is called a 95 % interval would be no more than the two scores themselves."""


class Kind(StrEnum):
    """What stands beside a figure."""

    INTERVAL = "95 % interval"
    RANGE = "range"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval, or with the range of its scores where they are few."""

    value: float
    low: float
    high: float
    count: int
    """Scores that it is made of."""
    kind: Kind = Kind.INTERVAL

    def as_text(self, form: str = ".4g") -> str:
        """Return the figure with its interval in brackets or its range in parentheses."""
        value, low, high = (f"{one:{form}}" for one in (self.value, self.low, self.high))
        match self.kind:
            case Kind.INTERVAL:
                return f"{value} [{low}, {high}]"
            case Kind.RANGE:
                return f"{value} ({low} to {high})"
            case Kind.NOTHING:
                return value


Figure = Callable[[Numbers], Numbers]
"""Returns a figure of the scores along the last axis, for all rows at once."""


def interquartile_mean(scores: Numbers) -> Numbers:
    """Return the mean of the middle half: a quarter of the scores is cut off at either end."""
    ranked = np.sort(scores, axis=-1)
    count = ranked.shape[-1]
    middle: Numbers = ranked[..., count // 4 : count - count // 4].mean(axis=-1)
    return middle


def mean(scores: Numbers) -> Numbers:
    """Return the mean of all scores."""
    found: Numbers = np.mean(scores, axis=-1)
    return found


def bootstrap(strata: Sequence[Numbers], figure: Figure, *, resamples: int = RESAMPLES) -> Estimate:
    """Return a figure of all scores, its interval by drawing again within each stratum.

    Of fewer than `LEAST_SCORES` in a stratum the range is returned instead. A stratum is what is
    fixed by design, for instance a task: every draw has as many scores of each. The same scores
    give the same digits.
    """
    every = np.concatenate(list(strata))
    value = float(figure(every))
    if min(map(len, strata)) < LEAST_SCORES:
        return Estimate(value, float(every.min()), float(every.max()), len(every), Kind.RANGE)
    generator = Seeds(0).generator("bootstrap", len(strata))
    drawn = [part[generator.integers(0, len(part), (resamples, len(part)))] for part in strata]
    low, high = _middle(figure(np.concatenate(drawn, axis=-1)))
    return Estimate(value, low, high, len(every))


def _middle(found: Numbers) -> tuple[float, float]:
    low, high = np.quantile(found, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(low), float(high)


def probability_of_improvement(ours: Numbers, theirs: Numbers) -> float:
    """Return how often one of ours beats one of theirs, a tie counting half."""
    ranked = np.sort(theirs)
    below = np.searchsorted(ranked, ours, side="left")
    ties = np.searchsorted(ranked, ours, side="right") - below
    return float((below + 0.5 * ties).sum() / (len(ours) * len(theirs)))


def improvement(
    ours: Sequence[Numbers], theirs: Sequence[Numbers], *, resamples: int = RESAMPLES // 5
) -> Estimate:
    """Return the probability of improvement, the mean over strata, with its interval.

    Of fewer than `LEAST_SCORES` in a stratum there is none.
    """
    generator = Seeds(0).generator("improvement", len(ours))

    def over_strata(first: Sequence[Numbers], second: Sequence[Numbers]) -> float:
        pairs = zip(first, second, strict=True)
        return float(np.mean([probability_of_improvement(a, b) for a, b in pairs]))

    def again(parts: Sequence[Numbers]) -> list[Numbers]:
        return [part[generator.integers(0, len(part), len(part))] for part in parts]

    value, count = over_strata(ours, theirs), sum(map(len, ours))
    if min(map(len, (*ours, *theirs))) < LEAST_SCORES:
        return Estimate(value, value, value, count, Kind.NOTHING)
    found = [over_strata(again(ours), again(theirs)) for _ in range(resamples)]
    return Estimate(value, *_middle(np.array(found)), count)


def paired_difference(ours: Numbers, theirs: Numbers, *, resamples: int = RESAMPLES) -> Estimate:
    """Return the mean difference over cases both played, drawn again case by case."""
    return bootstrap([ours - theirs], mean, resamples=resamples)
