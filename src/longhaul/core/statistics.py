"""Confidence intervals: of what was drawn again and again, and of shares."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Interval = tuple[float, float]

MIDDLE_95 = (0.025, 0.975)
"""The quantiles between which the middle 95 % lie."""


def resample(generator: np.random.Generator, count: int, resamples: int) -> NDArray[np.int64]:
    """Return [resamples, count], each row `count` indices drawn with replacement."""
    return generator.integers(0, count, (resamples, count))


def interval(values: NDArray[np.floating], quantiles: tuple[float, float] = MIDDLE_95) -> Interval:
    """Return the two quantiles of what was found in the resamples, by default a 95 % interval."""
    low, high = np.quantile(values, quantiles)
    return float(low), float(high)


NORMAL_95 = 1.959963984540054
"""Standard deviations from the mean between which 95 % of a normal distribution lie."""


def wilson(cleared: int, played: int) -> Interval:
    """Return Wilson's 95 % interval of a share."""
    share, z = cleared / played, NORMAL_95
    middle = share + z * z / (2 * played)
    spread = z * math.sqrt(share * (1 - share) / played + z * z / (4 * played * played))
    below = 1 + z * z / played
    return max((middle - spread) / below, 0.0), min((middle + spread) / below, 1.0)


def mean_interval(
    values: Sequence[float], generator: np.random.Generator, resamples: int = 2000
) -> Interval:
    """Return the 95 % interval of the mean, by drawing from the values again and again.

    One resample at a time: there may be as many values as a run has episodes.
    """
    numbers = np.asarray(values, np.float64)
    drawn = (numbers[resample(generator, len(numbers), 1)[0]].mean() for _ in range(resamples))
    return interval(np.fromiter(drawn, np.float64, resamples))
