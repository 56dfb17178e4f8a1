"""How sure one can be that one policy, or one way of training, is better than another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from longhaul.core.seeds import Seeds
from longhaul.report.series import Numbers

RESAMPLES = 5000
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    def as_text(self, form: str = ".4g") -> str:
        """Return the figure and its interval."""
        return f"{self.value:{form}} [{self.low:{form}}, {self.high:{form}}]"


def interquartile_mean(scores: Numbers) -> float:
    """Return the mean of the middle half: a quarter of the scores is cut off at either end."""
    ranked = np.sort(scores, axis=None)
    cut = len(ranked) // 4
    return float(ranked[cut : len(ranked) - cut].mean())


def mean(scores: Numbers) -> float:
    """Return the mean of all scores."""
    return float(np.mean(scores))


def bootstrap(
    strata: Sequence[Numbers], figure: Callable[[Numbers], float], *, resamples: int = RESAMPLES
) -> Estimate:
    """Return a figure of all scores, its interval by drawing again within each stratum.

    A stratum is what is fixed by design, for instance a task: every draw has as many scores of
    each. The same scores give the same digits.
    """
    generator = Seeds(0).generator("bootstrap", len(strata))
    found = np.empty(resamples)
    for number in range(resamples):
        drawn = [part[generator.integers(0, len(part), len(part))] for part in strata]
        found[number] = figure(np.concatenate(drawn))
    low, high = np.quantile(found, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Estimate(figure(np.concatenate(list(strata))), float(low), float(high))


def probability_of_improvement(ours: Numbers, theirs: Numbers) -> float:
    """Return how often one of ours beats one of theirs, a tie counting half."""
    ranked = np.sort(theirs)
    below = np.searchsorted(ranked, ours, side="left")
    ties = np.searchsorted(ranked, ours, side="right") - below
    return float((below + 0.5 * ties).sum() / (len(ours) * len(theirs)))


def improvement(
    ours: Sequence[Numbers], theirs: Sequence[Numbers], *, resamples: int = RESAMPLES
) -> Estimate:
    """Return the probability of improvement, the mean over strata, with its interval."""
    generator = Seeds(0).generator("improvement", len(ours))

    def over_strata(first: Sequence[Numbers], second: Sequence[Numbers]) -> float:
        pairs = zip(first, second, strict=True)
        return float(np.mean([probability_of_improvement(a, b) for a, b in pairs]))

    def again(parts: Sequence[Numbers]) -> list[Numbers]:
        return [part[generator.integers(0, len(part), len(part))] for part in parts]

    found = [over_strata(again(ours), again(theirs)) for _ in range(resamples)]
    low, high = np.quantile(found, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Estimate(over_strata(ours, theirs), float(low), float(high))


def paired_difference(ours: Numbers, theirs: Numbers, *, resamples: int = RESAMPLES) -> Estimate:
    """Return the mean difference over cases both played, drawn again case by case."""
    return bootstrap([ours - theirs], mean, resamples=resamples)
