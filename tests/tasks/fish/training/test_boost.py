"""The speed fish start with while training."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longhaul.core.control import Progress, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.tasks.fish.evaluation.suites import V38_BOOSTS
from longhaul.tasks.fish.options import DENSITY_PENALTY, ESCAPE_BOOST
from longhaul.tasks.fish.training.curriculum import EscapeBoost
from longhaul.tasks.fish.training.gate import GATE_STAGE
from longhaul.tasks.fish.training.options import BoostOptions
from tests.tasks.fish.laboratory import BOOST, curriculum
from tests.tasks.fish.training.test_ladder import ladder

ADAPTIVE = replace(BOOST, adaptive=True)


def boost(options: BoostOptions = BOOST) -> EscapeBoost:
    return EscapeBoost(options, curriculum(), ESCAPE_BOOST, DENSITY_PENALTY, GATE_STAGE)


def test_the_recorded_evaluations_had_these_boosts() -> None:
    """The gate of that run never left its first stage, which allows phase 4."""
    found = [
        boost().value_at(iteration, penalty=ladder().value_at(iteration, 4))
        for iteration in range(8, 57, 8)
    ]
    assert found == list(V38_BOOSTS)


def test_a_high_penalty_caps_the_boost() -> None:
    assert boost().value_at(40, penalty=0.049) == 0.82
    assert boost().value_at(40, penalty=0.05) == 0.8


@pytest.mark.parametrize(
    ("recent", "iteration", "speed"),
    [
        ((11.0, 11.0, 40.0), 30, 0.78),  # aims at 0.76, but the floor of phase 4 is 0.78
        ((30.0,), 40, 0.8),
        ((5.0,), 40, 0.8),  # the floor of phase 5
        ((15.0,), 40, 0.82),  # neither early nor late
        ((30.0,), 11, 0.75),  # too early to act
        ((), 40, 0.82),
    ],
)
def test_early_deaths_lower_the_boost(
    recent: tuple[float, ...], iteration: int, speed: float
) -> None:
    assert boost(ADAPTIVE).value_at(iteration, penalty=0.0, recent=recent) == speed


def test_a_stage_of_the_gate_has_a_floor_of_its_own() -> None:
    raised = boost(replace(ADAPTIVE, stage_floors=((2, 0.81),)))
    assert raised.value_at(40, penalty=0.0, stage=1, recent=(30.0,)) == 0.8
    assert raised.value_at(40, penalty=0.0, stage=2, recent=(30.0,)) == 0.81


def test_the_mean_may_decide_instead_of_the_median() -> None:
    recent = (5.0, 5.0, 80.0)
    lowered = replace(ADAPTIVE, phase_floors=(), floor=0.0)
    assert boost(lowered).value_at(40, penalty=0.0, recent=recent) == 0.76
    by_mean = replace(lowered, use_mean=True)
    assert boost(by_mean).value_at(40, penalty=0.0, recent=recent) == 0.8


def test_a_window_of_measurements_is_kept_and_no_news_changes_nothing() -> None:
    controller = boost(replace(ADAPTIVE, window=2))
    settings = Settings([ESCAPE_BOOST, DENSITY_PENALTY, GATE_STAGE])
    state = controller.initial()
    for value in (1.0, 2.0, 3.0):
        view = View(Progress(3), {controller.metric: value}, settings)
        state = controller.decide(state, view).state
    assert state.recent == (2.0, 3.0)
    assert controller.decide(state, View(Progress(4), {}, settings)).state == state


def test_a_speed_fish_cannot_have_is_refused_before_the_run() -> None:
    assert any(a.value == 1.4 for a in boost(replace(BOOST, phase_speeds=((3, 1.4),))).extremes)
    with pytest.raises(ConfigError, match=r"penalty_caps: duplicate entry 0\.05"):
        boost(replace(BOOST, penalty_caps=((0.05, 0.8), (0.05, 0.9))))
