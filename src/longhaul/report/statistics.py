"""Series and estimates: bootstrap intervals and the probability of improvement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longhaul.core.seeds import Seeds
from longhaul.core.statistics import interval, resample

Numbers = NDArray[np.float64]
Row = Mapping[str, Any]

MOST_POINTS = 400


@dataclass(frozen=True, slots=True)
class Series:
    """A quantity over steps."""

    steps: Numbers
    values: Numbers

    def __len__(self) -> int:
        return len(self.steps)

    def thinned(self, most: int = MOST_POINTS) -> Series:
        """Return the means of `most` equal stretches, or the series itself if it is short."""
        if len(self) <= most:
            return self
        edges = np.linspace(0, len(self), most + 1).astype(np.int64)[:-1]
        counts = np.diff(np.append(edges, len(self)))
        return Series(
            np.add.reduceat(self.steps, edges) / counts,
            np.add.reduceat(self.values, edges) / counts,
        )


@dataclass(frozen=True, slots=True)
class Bands:
    """Quantiles of a quantity in stretches of the run."""

    steps: Numbers
    quantiles: Numbers  # [5, stretches]: 10, 25, 50, 75 and 90 %


BAND_QUANTILES = (0.10, 0.25, 0.50, 0.75, 0.90)


def is_number(value: object) -> bool:
    """Whether a field of a log is a number that can be plotted."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def column(rows: Iterable[Row], name: str, *, over: str = "env_steps") -> Series:
    """Return one metric over the run; rows without it are left out."""
    pairs = [
        (row[over], row[name])
        for row in rows
        if is_number(row.get(name)) and is_number(row.get(over))
    ]
    array = np.array(pairs, np.float64).reshape(-1, 2)
    return Series(array[:, 0], array[:, 1])


def names_in(rows: Sequence[Row], prefix: str, suffix: str = "") -> list[str]:
    """Return the metrics of a group that any row has, in the order they first appear."""
    found = dict.fromkeys(
        name for row in rows for name in row if name.startswith(prefix) and name.endswith(suffix)
    )
    return list(found)


def episode_series(episodes: Sequence[Row], rows: Sequence[Row], field: str) -> Series:
    """Return a figure of every episode over the steps of the iteration it ended in."""
    steps = {row.get("iteration"): row.get("env_steps") for row in rows}
    pairs = [
        (steps[episode["iteration"]], episode[field])
        for episode in episodes
        if is_number(steps.get(episode.get("iteration"))) and is_number(episode.get(field))
    ]
    array = np.array(pairs, np.float64).reshape(-1, 2)
    return Series(array[:, 0], array[:, 1])


def bands(series: Series, stretches: int = 60) -> Bands | None:
    """Return quantiles over stretches of about equally many values; None if there are too few.

    Values of one step stay together: many episodes end in the same iteration.
    """
    count = min(stretches, len(series) // 8)
    if count < 2:
        return None
    edges = np.unique(np.quantile(series.steps, np.linspace(0, 1, count + 1)))
    places = np.clip(np.searchsorted(edges, series.steps, side="right") - 1, 0, len(edges) - 2)
    steps, quantiles = [], []
    for place in np.unique(places):
        own = places == place
        steps.append(series.steps[own].mean())
        quantiles.append(np.quantile(series.values[own], BAND_QUANTILES))
    return Bands(np.array(steps), np.array(quantiles).T) if len(steps) > 1 else None


RESAMPLES = 5000
LEVEL = 0.95
QUANTILES = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
LEAST_SCORES = 5
"""Fewest scores for an interval. Resamples of two scores never lie outside of them, so a 95 %
interval would be no more than the two scores."""


class IntervalKind(StrEnum):
    """What is shown beside a value."""

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
    kind: IntervalKind = IntervalKind.INTERVAL

    def as_text(self, form: str = ".4g") -> str:
        """Return the figure with its interval in brackets or its range in parentheses."""
        value, low, high = (f"{one:{form}}" for one in (self.value, self.low, self.high))
        match self.kind:
            case IntervalKind.INTERVAL:
                return f"{value} [{low}, {high}]"
            case IntervalKind.RANGE:
                return f"{value} ({low} to {high})"
            case IntervalKind.NOTHING:
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
    """Return a figure of all scores, its interval by resampling within each stratum.

    With fewer than `LEAST_SCORES` in a stratum the range is returned instead. A stratum is fixed by
    design, for instance a task: every resample has as many scores of each. The same scores give
    the same digits.
    """
    every = np.concatenate(list(strata))
    value = float(figure(every))
    if min(map(len, strata)) < LEAST_SCORES:
        return Estimate(
            value, float(every.min()), float(every.max()), len(every), IntervalKind.RANGE
        )
    generator = Seeds(0).generator("bootstrap", len(strata))
    drawn = [part[resample(generator, len(part), resamples)] for part in strata]
    low, high = interval(figure(np.concatenate(drawn, axis=-1)), QUANTILES)
    return Estimate(value, low, high, len(every))


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

    With fewer than `LEAST_SCORES` in a stratum there is none.
    """
    generator = Seeds(0).generator("improvement", len(ours))

    def over_strata(first: Sequence[Numbers], second: Sequence[Numbers]) -> float:
        pairs = zip(first, second, strict=True)
        return float(np.mean([probability_of_improvement(a, b) for a, b in pairs]))

    def again(parts: Sequence[Numbers]) -> list[Numbers]:
        return [part[generator.integers(0, len(part), len(part))] for part in parts]

    value, count = over_strata(ours, theirs), sum(map(len, ours))
    if min(map(len, (*ours, *theirs))) < LEAST_SCORES:
        return Estimate(value, value, value, count, IntervalKind.NOTHING)
    found = [over_strata(again(ours), again(theirs)) for _ in range(resamples)]
    return Estimate(value, *interval(np.array(found), QUANTILES), count)


def paired_difference(ours: Numbers, theirs: Numbers, *, resamples: int = RESAMPLES) -> Estimate:
    """Return the mean difference over cases both played, resampled case by case."""
    return bootstrap([ours - theirs], mean, resamples=resamples)
