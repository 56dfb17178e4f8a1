"""Percentile intervals of what was drawn again and again."""

from __future__ import annotations

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
