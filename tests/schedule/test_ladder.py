from __future__ import annotations

from typing import Any

import pytest

from longhaul.core.control import Progress, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.schedule.criterion import Criterion, Limit
from longhaul.schedule.ladder import Ladder
from longhaul.schedule.schedule import Schedule
from tests.schedule.examples import FISH, SCORE, STAGE

SIZES = (15, 20, 25, 30)


def climb(
    ladder: Ladder[int], told: list[tuple[Progress, dict[str, float]]], **held: int
) -> list[int]:
    """Return the value after the beginning and after each iteration told."""
    schedule = Schedule([ladder], Settings([FISH, STAGE], {**held}))
    settings, _ = schedule.begin(schedule.settings)
    values = [settings[FISH]]
    for progress, metrics in told:
        settings, _ = schedule.step(View(progress, metrics, settings))
        values.append(settings[FISH])
    return values


def test_a_ladder_climbs_at_its_points() -> None:
    ladder = Ladder("fish", FISH, SIZES, at=(2, 3, 5), along="iterations")
    told = [(Progress(k), dict[str, float]()) for k in range(1, 7)]
    assert climb(ladder, told) == [15, 15, 20, 25, 25, 30, 30]


def test_points_passed_together_are_climbed_one_by_one() -> None:
    ladder = Ladder("fish", FISH, SIZES, at=(10, 20, 30), along="env_steps")
    told = [(Progress(k, env_steps=1000), dict[str, float]()) for k in range(1, 5)]
    assert climb(ladder, told) == [15, 20, 25, 30, 30]


def test_a_ladder_climbs_when_its_metric_has_passed_often_enough() -> None:
    criterion = Criterion(SCORE, ">=", 0.5, by_stage=(0.5, 0.7))
    ladder = Ladder("fish", FISH, SIZES, when=criterion, patience=2)
    scores = [0.6, 0.4, 0.6, None, 0.6, 0.6, 0.8, 0.8]
    told = [
        (Progress(k), {} if score is None else {SCORE: score})
        for k, score in enumerate(scores, start=1)
    ]
    assert climb(ladder, told) == [15, 15, 15, 15, 15, 20, 20, 20, 25]


def test_the_limit_caps_the_rung_and_pulls_it_down() -> None:
    ladder = Ladder("fish", FISH, SIZES, at=(1, 2, 3), along="iterations", limit=Limit(STAGE))
    schedule = Schedule([ladder], Settings([FISH, STAGE]))
    settings, _ = schedule.begin(schedule.settings)
    values = []
    for iteration, stage in enumerate((1, 1, 2, 3, 1), start=1):
        settings = settings.with_([STAGE.to(stage)])
        settings, changes = schedule.step(View(Progress(iteration), {}, settings))
        values.append(settings[FISH])
    assert values == [20, 20, 25, 30, 20]
    assert changes[0].why == "gate.stage = 1 allows no rung above 1"


def test_a_ladder_without_points_follows_its_limit() -> None:
    ladder = Ladder("fish", FISH, SIZES, limit=Limit(STAGE, allowance=(0, 2, 3)))
    told = [(Progress(k), dict[str, float]()) for k in range(1, 4)]
    assert climb(ladder, told, **{STAGE.name: 1}) == [20, 25, 25, 25]


def test_a_value_off_the_ladder_is_put_on_the_first_rung() -> None:
    ladder = Ladder("fish", FISH, SIZES, at=(2, 3, 5), along="iterations")
    assert climb(ladder, [], **{FISH.name: 7}) == [15]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"values": (15, 15), "at": (1,)}, "at least two different rungs"),
        ({"values": (15, 20), "at": (1, 2)}, "2 points for 2 rungs; 1 are needed"),
        ({"values": (15, 20, 25), "at": (2, 1)}, "does not ascend"),
        ({"values": (15, 20)}, "never climbs"),
        ({"values": (15, 20), "at": (1,), "when": Criterion(SCORE, ">", 0)}, "both"),
        ({"values": (15, 20), "at": (1,), "patience": 0}, "patience"),
    ],
)
def test_impossible_ladders_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Ladder("fish", FISH, **fields)


def test_an_allowance_below_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="below 0"):
        Limit(STAGE, (1, -1))
