"""The share of a core that learning uses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.core_share import Use, measure

from tests.app.small import CARTPOLE, small_config


def test_the_share_is_what_was_computed_over_what_could_have_been() -> None:
    use = Use(samples_per_second=1e6, flop=2e4, peak=1e11)
    assert use.rate == pytest.approx(2e10)
    assert use.share == pytest.approx(0.2)


def test_a_training_says_what_it_computed() -> None:
    config = small_config(CARTPOLE, "policy.hidden=[8]")
    found = measure(replace(config, threads=1))
    # Two networks of 4 to 8, then to 2 actions and to 1 value; back to weights and hidden units.
    first, last = 2 * (4 * 8 + 4 * 8), 2 * (8 * 2 + 8)
    assert found.flop == 2 * first + 3 * last
    assert 0 < found.share < 1
