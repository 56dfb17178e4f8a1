"""Stages that join one after another, and stages drawn as often as they are failed."""

from __future__ import annotations

import pytest

from longhaul.core.control import Progress, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.tasks.mario.game.stages import STAGES, lottery_of
from longhaul.tasks.mario.options import StageOptions
from longhaul.tasks.mario.stage_schedule import (
    REDRAW_EVERY,
    WINDOW,
    StageCurriculum,
    StagesByFailure,
    stage_rate,
)


def opened(rates: list[dict[str, float]], threshold: float = 0.6) -> list[int]:
    """Return how many stages are open after each iteration."""
    curriculum = StageCurriculum(("1-1", "1-2", "1-3"), StageOptions(threshold=threshold))
    state, now, told = curriculum.initial(), Settings([STAGES]), []
    for iteration, rate in enumerate(rates, start=1):
        metrics = {stage_rate(stage): value for stage, value in rate.items()}
        decision = curriculum.decide(state, View(Progress(iteration), metrics, now))
        state, now = decision.state, now.with_(decision.assignments)
        told.append(len(lottery_of(now[STAGES]).stages))
    return told


def test_the_next_stage_joins_when_the_newest_is_cleared_often_enough() -> None:
    told = opened([{"1-1": 0.7}] * (WINDOW + 2) + [{"1-1": 0.9, "1-2": 0.5}] * 30)
    assert told[: WINDOW - 1] == [1] * (WINDOW - 1)
    assert told[WINDOW - 1] == 2
    assert told[-1] == 2


def test_all_stages_may_be_open_and_stay_so() -> None:
    assert opened([{"1-1": 1.0, "1-2": 1.0, "1-3": 1.0}] * 40)[-1] == 3


def test_old_stages_do_not_count_and_silence_changes_nothing() -> None:
    rates: list[dict[str, float]] = [{"1-1": 0.7}] * WINDOW + [{"1-1": 1.0}] * 20 + [{}] * 20
    assert opened(rates)[-1] == 2


def test_the_newest_stage_is_drawn_most_often() -> None:
    curriculum = StageCurriculum(("1-1", "1-2"), StageOptions(old_weight=0.25))
    last = lottery_of(curriculum.extremes[1].value)  # type: ignore[arg-type]
    assert last.weights == (0.25, 1.0)


def test_stages_are_drawn_as_often_as_they_are_failed() -> None:
    drawn = StagesByFailure(("1-1", "1-2", "1-3"), StageOptions("failures", old_weight=0.1))
    state, now = drawn.initial(), Settings([STAGES])
    metrics = {stage_rate("1-1"): 1.0, stage_rate("1-2"): 0.5}
    changes = []
    for iteration in range(1, 10 * REDRAW_EVERY + 1):
        decision = drawn.decide(state, View(Progress(iteration), metrics, now))
        state, now = decision.state, now.with_(decision.assignments)
        changes += [iteration] * bool(decision.assignments)
    assert lottery_of(now[STAGES]).weights == (0.1, 0.5, 1.0)
    assert all(iteration % REDRAW_EVERY == 0 for iteration in changes)
    assert decision.why == "" or "1-3" in decision.why


def test_a_stage_that_is_never_failed_is_still_drawn() -> None:
    with pytest.raises(ConfigError, match="old_weight must be above 0"):
        StageOptions("failures", old_weight=0.0)
    with pytest.raises(ConfigError, match="none of drawn, curriculum, failures"):
        StageOptions("random")
