"""The 32 stages and how one is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.errors import ConfigError
from longhaul.tasks.mario.game.stages import (
    ALL_STAGES,
    Lottery,
    Stage,
    lottery,
    lottery_of,
    span,
)


def test_there_are_32_stages_in_order() -> None:
    assert len(set(ALL_STAGES)) == 32
    assert [str(stage) for stage in ALL_STAGES[:5]] == ["1-1", "1-2", "1-3", "1-4", "2-1"]
    assert list(ALL_STAGES) == sorted(ALL_STAGES)


def test_a_span_goes_on_with_the_next_world() -> None:
    stages = span(Stage(1, 3), 4)
    assert [str(stage) for stage in stages] == ["1-3", "1-4", "2-1", "2-2"]


def test_a_span_beyond_the_last_stage_is_refused() -> None:
    with pytest.raises(ConfigError, match="ends with 8-4"):
        span(Stage(8, 4), 2)


@pytest.mark.parametrize("text", ["9-1", "0-1", "1-5", "11", "1-1-1", ""])
def test_what_is_no_stage_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"stage"):
        Stage.parse(text)


@given(st.sampled_from(ALL_STAGES))
def test_a_stage_reads_back_from_its_name_and_place(stage: Stage) -> None:
    assert Stage.parse(str(stage)) == stage == Stage.at(stage.index)


def test_spans_and_single_stages_can_be_mixed() -> None:
    assert lottery(("1-1..1-3", "8-4")).stages == (*ALL_STAGES[:3], ALL_STAGES[31])
    with pytest.raises(ConfigError, match="do not fit"):
        lottery(("1-3..1-1",))


@given(
    st.lists(st.tuples(st.sampled_from(ALL_STAGES), st.floats(0, 10)), min_size=1, max_size=6),
    st.floats(0, 1, exclude_max=True),
)
def test_no_stage_of_weight_0_is_ever_drawn(pairs: list[tuple[Stage, float]], share: float) -> None:
    stages, weights = zip(*pairs, strict=True)
    if sum(weights) <= 0:
        return
    drawn = Lottery(stages, weights).draw(share)
    assert max(w for stage, w in pairs if stage == drawn) > 0


def test_stages_are_drawn_by_their_weights() -> None:
    chosen = lottery_of((("1-1", 1.0), ("1-2", 3)))
    shares = np.random.default_rng(1).random(4000)
    drawn = [str(chosen.draw(share)) for share in shares]
    assert drawn.count("1-2") == pytest.approx(3000, abs=120)


@pytest.mark.parametrize("weights", [(0.0,), (-1.0,), (float("nan"),), (1.0, 2.0)])
def test_weights_that_are_none_are_refused(weights: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="weight"):
        lottery(("1-1",), weights)


def test_a_setting_that_holds_no_pairs_is_refused() -> None:
    with pytest.raises(ConfigError, match="pairs"):
        lottery_of(("1-1",))
