"""Row 10 of the checklist: the density penalty's ladder."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longhaul.core.control import Progress, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.schedule.criterion import Limit
from longhaul.tasks.fish.options import DENSITY_PENALTY
from longhaul.tasks.fish.training.curriculum import PenaltyLadder
from longhaul.tasks.fish.training.gate import GATE_STAGE
from longhaul.tasks.fish.training.options import LadderOptions
from tests.tasks.fish.laboratory import LADDER, curriculum

OPEN = {
    **dict.fromkeys(range(1, 10), 0.0),
    **dict.fromkeys(range(10, 20), 0.02),
    **dict.fromkeys(range(20, 29), 0.04),
    **dict.fromkeys(range(29, 37), 0.05),
    **dict.fromkeys(range(37, 46), 0.055),
    46: 0.05571,
    52: 0.06,
    53: 0.06,
    60: 0.065,
}


def ladder(options: LadderOptions = LADDER, *, limited: bool = False) -> PenaltyLadder:
    limit = Limit(GATE_STAGE, (3, 4, 5, 6)) if limited else None
    return PenaltyLadder(options, curriculum(), DENSITY_PENALTY, limit)


@pytest.mark.parametrize(("iteration", "penalty"), OPEN.items())
def test_an_open_gate_gives_the_recorded_penalties(iteration: int, penalty: float) -> None:
    assert ladder().value_at(iteration, 7) == pytest.approx(penalty, abs=5e-6)


@pytest.mark.parametrize("iteration", range(29, 61))
def test_a_limit_of_phase_4_holds_its_penalty(iteration: int) -> None:
    assert ladder().value_at(iteration, 4) == 0.05


def test_the_controller_follows_the_gate() -> None:
    controller = ladder(limited=True)
    settings = Settings([DENSITY_PENALTY, GATE_STAGE])
    found = []
    for done in range(60):
        settings = settings.with_([GATE_STAGE.to(0 if done < 50 else 2)])
        decision = controller.decide(controller.initial(), View(Progress(done), {}, settings))
        settings = settings.with_(decision.assignments)
        found.append(settings[DENSITY_PENALTY])
    assert found[28:50] == [0.05] * 22
    assert found[50] == pytest.approx(0.055 + 0.005 * 6 / 7)
    assert found[52:] == [0.06] * 8


def test_a_plateau_holds_the_penalty_before() -> None:
    waiting = replace(LADDER, phase_plateaus=(0, 0, 0, 0, 0, 3, 0))
    values = [ladder(waiting).value_at(iteration, 7) for iteration in range(45, 53)]
    assert values == pytest.approx([0.055] * 4 + [0.055 + 0.005 * k / 4 for k in range(1, 5)])


def test_the_lock_caps_the_penalty_until_it_ends() -> None:
    early = replace(LADDER, lock_until=30)
    assert [ladder(early).value_at(i, 7) for i in (28, 30, 31)] == [0.04, 0.04, 0.05]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (replace(LADDER, phase_targets=(0.0, 0.1)), "2 targets for 7 phases"),
        (replace(LADDER, phase_plateaus=(1,)), "1 plateaus for 7 phases"),
        (replace(LADDER, ramp_phases=(8,)), "no phase 8 of 7"),
    ],
)
def test_a_ladder_that_does_not_fit_is_refused(options: LadderOptions, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        ladder(options)
