"""Row 22 of the fish's checklist: two policies compared case by case."""

from __future__ import annotations

import numpy as np
import pytest

from longhaul.app.evaluation.suites import compare
from longhaul.core.env import Episode
from longhaul.core.errors import ConfigError


def episodes(returns: list[float], *, first_seed: int = 0) -> tuple[Episode, ...]:
    return tuple(Episode(0, n, first_seed + n, 1, value, "over") for n, value in enumerate(returns))


def score(episode: Episode) -> float:
    return episode.episode_return


def test_a_small_but_steady_difference_shows_through_large_ones_between_cases() -> None:
    generator = np.random.default_rng(0)
    hard = generator.normal(0, 10, 60)
    ours = episodes((hard + 0.1).tolist())
    found = compare(ours, episodes(hard.tolist()), score, against="them")
    assert found.difference == pytest.approx(0.1)
    assert found.low == pytest.approx(0.1)
    assert (found.better, found.worse, found.cases) == (60, 0, 60)
    assert "minus them: +0.1000" in found.as_text()


def test_no_difference_has_zero_in_its_interval() -> None:
    generator = np.random.default_rng(1)
    one, two = (episodes(generator.normal(0, 1, 100).tolist()) for _ in range(2))
    found = compare(one, two, score, against="them")
    assert found.low < 0 < found.high
    assert compare(one, two, score, against="them") == found


def test_cases_only_one_side_played_do_not_count() -> None:
    ours, theirs = episodes([1.0, 2.0, 3.0]), episodes([2.0, 2.0], first_seed=1)
    found = compare(ours, theirs, score, against="them")
    assert (found.cases, found.difference) == (2, 0.5)
    with pytest.raises(ConfigError, match="no episode in common"):
        compare(ours, episodes([1.0], first_seed=9), score, against="them")
