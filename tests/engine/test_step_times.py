"""The spread of the environments' step times."""

from __future__ import annotations

import numpy as np
import pytest

from longhaul.engine.summary import StepTimes


def test_the_spread_is_told_once() -> None:
    times = StepTimes()
    seconds = [0.001 * n for n in range(1, 201)]
    for one in seconds:
        times.add(one)
    found = times.take()
    for percent in (50, 90, 99):
        expected = 1000 * np.percentile(seconds, percent)
        assert found[f"time/env_step_p{percent}_ms"] == pytest.approx(expected)
    assert found["time/env_step_max_ms"] == pytest.approx(200.0)
    assert times.take() == {}
