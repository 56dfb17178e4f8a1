from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from longhaul.core.control import Progress, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Setting, Settings, SettingValue
from longhaul.schedule.criterion import Limit
from longhaul.schedule.phases import Phase, Phases
from longhaul.schedule.schedule import Schedule
from tests.schedule.examples import ROUTER, STAGE, TEMPERATURE

RATE = Setting("learn.learning_rate", 1.0, "")
ALPHA = Setting("loss.alpha_entropy", 0.0, "")
SIGN = Setting("loss.alpha_entropy_sign", 0, "")

NETHACK = Phases(
    "training",
    (
        Phase(
            "warmup",
            0,
            assign=(
                ROUTER.to("softmax"),
                TEMPERATURE.to(1.0),
                RATE.to(1e-4),
                ALPHA.to(0.1),
                SIGN.to(-1),
            ),
        ),
        Phase(
            "transition",
            1000,
            assign=(ROUTER.to("sparsemax"), RATE.to(5e-5)),
            move=(TEMPERATURE.to(0.5), ALPHA.to(0.0)),
        ),
        Phase("fine-tune", 3000, assign=(RATE.to(1e-5), ALPHA.to(0.05), SIGN.to(1))),
    ),
    along="episodes",
)


def values_at(phases: Phases, progress: Progress, **held: SettingValue) -> dict[str, Any]:
    settings = Settings([ROUTER, TEMPERATURE, RATE, ALPHA, SIGN, STAGE, DENSITY], held)
    settings = settings.with_(
        phases.decide(phases.initial(), View(progress, {}, settings)).assignments
    )
    return settings.values()


DENSITY = Setting("env.density_penalty", 0.0, "")


@pytest.mark.parametrize(
    ("episode", "router", "temperature", "rate", "alpha", "sign"),
    [
        (0, "softmax", 1.0, 1e-4, 0.1, -1),
        (999, "softmax", 1.0, 1e-4, 0.1, -1),
        (1000, "sparsemax", 1.0, 5e-5, 0.1, -1),
        (2000, "sparsemax", 0.75, 5e-5, 0.05, -1),
        (2999, "sparsemax", 0.50025, 5e-5, 0.00005, -1),
        (3000, "sparsemax", 0.5, 1e-5, 0.05, 1),
        (9999, "sparsemax", 0.5, 1e-5, 0.05, 1),
    ],
)
def test_three_phases_by_episode_step_and_interpolate(
    episode: int, router: str, temperature: float, rate: float, alpha: float, sign: int
) -> None:
    values = values_at(NETHACK, Progress(episodes=episode))
    assert values[ROUTER.name] == router
    assert values[TEMPERATURE.name] == pytest.approx(temperature)
    assert values[RATE.name] == rate
    assert values[ALPHA.name] == pytest.approx(alpha)
    assert values[SIGN.name] == sign


def test_a_scaled_run_sees_every_phase() -> None:
    short = replace(NETHACK, scale=0.1)
    for episode in (0, 57, 100, 200, 299, 300):
        assert values_at(short, Progress(episodes=episode)) == pytest.approx(
            values_at(NETHACK, Progress(episodes=10 * episode))
        )


def test_a_run_may_stay_in_one_phase() -> None:
    fixed = replace(NETHACK, only="transition")
    values = values_at(fixed, Progress(episodes=0))
    assert (values[TEMPERATURE.name], values[ALPHA.name], values[RATE.name]) == (0.5, 0.0, 5e-5)


def penalty_ladder() -> Phases:
    """The density penalty of the fish laboratory, version 38; iterations count from 1 there."""
    starts = (0, 9, 19, 28, 36, 44, 52)
    targets = (0.0, 0.02, 0.04, 0.05, 0.055, 0.06, 0.065)
    jumps = [Phase(f"phase {k + 1}", starts[k], assign=(DENSITY.to(targets[k]),)) for k in range(5)]
    ramps = [
        Phase(f"phase {k + 1}", starts[k], move=(DENSITY.to(targets[k]),), over=7) for k in (5, 6)
    ]
    return Phases("density", (*jumps, *ramps), along="iterations", limit=Limit(STAGE, (3, 4, 5, 6)))


@pytest.mark.parametrize(
    ("iteration", "expected"),
    [
        (1, 0.0),
        (9, 0.0),
        (10, 0.02),
        (19, 0.02),
        (20, 0.04),
        (28, 0.04),
        (29, 0.05),
        (37, 0.055),
        (44, 0.055),
        (45, 0.055),
        (46, 0.05571),
        (52, 0.06),
        (53, 0.06),
        (60, 0.065),
    ],
)
def test_the_fish_penalty_climbs_as_specified_with_an_open_gate(
    iteration: int, expected: float
) -> None:
    # What is decided after an iteration is in force in the next one.
    values = values_at(penalty_ladder(), Progress(iteration - 1), **{STAGE.name: 3})
    assert values[DENSITY.name] == pytest.approx(expected, abs=5e-6)


@pytest.mark.parametrize("iteration", [29, 45, 60])
def test_a_closed_gate_keeps_the_capped_phases_final_value(iteration: int) -> None:
    values = values_at(penalty_ladder(), Progress(iteration - 1), **{STAGE.name: 0})
    assert values[DENSITY.name] == 0.05


def test_a_move_waits_for_its_hold() -> None:
    phases = Phases(
        "p",
        (Phase("only", 0, assign=(DENSITY.to(1.0),), move=(DENSITY.to(2.0),), hold=4, over=2),),
        along="iterations",
    )
    values = [values_at(phases, Progress(k))[DENSITY.name] for k in (0, 4, 5, 6, 7)]
    assert values == [1.0, 1.0, 1.5, 2.0, 2.0]


def test_before_the_first_phase_nothing_is_touched() -> None:
    phases = Phases("p", (Phase("late", 10, assign=(DENSITY.to(1.0),)),), along="iterations")
    decision = phases.decide(phases.initial(), View(Progress(9), {}, Settings([DENSITY])))
    assert decision.assignments == ()
    assert decision.metrics == {"curriculum/p_phase": 0.0}


def test_a_phase_says_its_name_and_place() -> None:
    schedule = Schedule([NETHACK], Settings([ROUTER, TEMPERATURE, RATE, ALPHA, SIGN]))
    settings, _ = schedule.begin(schedule.settings)
    _, (change,) = schedule.step(View(Progress(episodes=3000), {}, settings))
    assert change.why == "phase 'fine-tune' at episode 3000"
    assert {move.setting for move in change.moves} == {
        ROUTER.name, TEMPERATURE.name, RATE.name, ALPHA.name, SIGN.name
    }  # fmt: skip
    assert schedule.metrics == {"curriculum/training_phase": 3.0}


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        ((), "has no phases"),
        ((Phase("a", 5), Phase("b", 5)), "'b' starts at 5, not after 'a'"),
        ((Phase("a", 0, move=(DENSITY.to(1.0),), over=3),), "from an unknown value"),
        (
            (Phase("a", 0, assign=(DENSITY.to(1.0),), move=(DENSITY.to(2.0),)),),
            "neither `over` nor a next phase",
        ),
        (
            (Phase("a", 0, assign=(SIGN.to(1),), move=(SIGN.to(2),), over=3),),
            "which is not a float",
        ),
        (
            (
                Phase("a", 0, assign=(DENSITY.to(1.0),), move=(DENSITY.to(2.0),), over=30),
                Phase("b", 20),
            ),
            "'a' ends before its hold and move are over",
        ),
    ],
)
def test_impossible_phases_are_refused(phases: tuple[Phase, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Phases("p", phases)


def test_an_unknown_phase_to_stay_in_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'warmup'"):
        replace(NETHACK, only="warm-up")
