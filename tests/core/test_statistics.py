"""Intervals from resamples."""

from __future__ import annotations

import numpy as np
import pytest

from longhaul.core.seeds import Seeds
from longhaul.core.statistics import interval, resample


def test_the_interval_leaves_out_a_fortieth_at_either_end() -> None:
    assert interval(np.arange(1001.0)) == pytest.approx((25.0, 975.0))


def test_the_interval_is_to_the_bit_the_percentiles_2_5_and_97_5() -> None:
    values = Seeds(3).generator("values").normal(size=2000)
    low, high = np.percentile(values, (2.5, 97.5))
    assert interval(values) == (float(low), float(high))


def test_the_same_generator_draws_the_same_indices_within_the_count() -> None:
    draws = resample(Seeds(0).generator("draws"), 7, 50)
    assert draws.shape == (50, 7)
    assert set(draws.flat) <= set(range(7))
    assert (draws == resample(Seeds(0).generator("draws"), 7, 50)).all()
