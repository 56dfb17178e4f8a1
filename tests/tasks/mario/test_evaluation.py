"""Figures, intervals and rows of an evaluation."""

from __future__ import annotations

import pytest

from longhaul.core.env import Episode
from longhaul.core.errors import ConfigError
from longhaul.core.statistics import wilson
from longhaul.tasks.mario.evaluation import (
    CLEAR_RATE,
    SCORE,
    MarioEvaluation,
    figures,
    intervals,
    record,
)
from longhaul.tasks.mario.options import MarioOptions


def episode(reason: str, progress: float, stage: str = "1-1") -> Episode:
    cleared = float(reason in ("flag", "axe"))
    metrics = {"progress": progress, "x": progress + 40, "frames": 240.0, "cleared": cleared}
    facts = {"stage": stage, "x": int(progress) + 40, "y": 176}
    return Episode(0, 0, 1, 60, 1.0, reason, metrics, facts)


PLAYED = [episode("flag", 3121.0), episode("flag", 3121.0), episode("pit", 1000.0)]


def test_the_clear_rate_ranks_and_progress_decides_between_equals() -> None:
    found = figures(PLAYED)
    assert found[CLEAR_RATE] == pytest.approx(2 / 3)
    assert found["eval/max_progress"] == 3121.0
    assert found["eval/ended/pit"] == pytest.approx(1 / 3)
    farther = figures([*PLAYED[:2], episode("enemy", 1500.0)])
    assert found[SCORE] < farther[SCORE] < found[SCORE] + 0.01


def test_the_native_return_is_pixels_less_ticks_less_a_death() -> None:
    assert figures(PLAYED[:1])["eval/native_return"] == 3121.0 - 10.0
    assert figures(PLAYED[2:])["eval/native_return"] == 1000.0 - 10.0 - 15.0


@pytest.mark.parametrize(
    ("cleared", "played", "low", "high"),
    # Values of R's prop.test(x, n, correct = FALSE).
    [(95, 100, 0.8882, 0.9785), (100, 100, 0.9630, 1.0), (0, 20, 0.0, 0.1611)],
)
def test_wilson_s_interval_is_the_textbook_s(
    cleared: int, played: int, low: float, high: float
) -> None:
    assert wilson(cleared, played) == pytest.approx((low, high), abs=5e-5)


def test_several_stages_get_a_row_each() -> None:
    played = [*PLAYED, episode("axe", 2000.0, "1-4"), episode("enemy", 500.0, "1-4")]
    assert figures(played)["eval/clear_rate/1-4"] == 0.5
    assert figures(played)["eval/stages_cleared"] == 2.0
    assert intervals(played)["eval/clear_rate/1-4"] == wilson(1, 2)
    rows = record(played)["stages"]
    assert [row["stage"] for row in rows] == ["1-1", "1-4"]
    assert rows[1]["ends"] == [{"reason": "enemy", "x": 540, "y": 176}]


def test_a_suite_begins_at_true_starts_whatever_training_does() -> None:
    options = MarioOptions(stages=("1-1", "1-2"), final_episodes=3, script="RIGHT:9")
    suite = MarioEvaluation(options, "").find("final")
    assert [case.start for case in suite.cases] == [("stage", "1-1"), ("stage", "1-2")] * 3
    assert len({case.seed for case in suite.cases}) == 6


def test_numbers_rotate_the_seeds_and_stages_are_suites() -> None:
    evaluation = MarioEvaluation(MarioOptions(), "")
    seeds = {evaluation.find(f"rehearsal-{number}").cases[0].seed for number in range(5)}
    assert len(seeds) == 5
    assert evaluation.find("4-2").cases[0].start == ("stage", "4-2")
    assert len(evaluation.find("final").cases) == 100
    with pytest.raises(ConfigError, match="there is no suite 'finale'"):
        evaluation.find("finale")
