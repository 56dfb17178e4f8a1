from __future__ import annotations

import pytest

from longhaul.core.control import Progress, RunLength, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Setting, Settings, SettingValue
from longhaul.tasks.nethack.policy.options import ENT_COEF, LEARNING_RATE, SETTINGS
from longhaul.tasks.nethack.policy.phases import (
    Mode,
    PhaseCoefficients,
    PhaseOptions,
    build_phases,
    phase_names,
)

OF_LEARNER = (Setting(LEARNING_RATE, 3e-4, ""), Setting(ENT_COEF, 0.0, ""))
DECLARED = Settings([*SETTINGS, *OF_LEARNER])

COLUMNS = (
    "router.kind",
    "router.temperature",
    "learn.learning_rate",
    "learn.ent_coef",
    "loss.alpha_entropy",
    "loss.load_balance",
    "loss.diversity",
    "loss.alignment",
    "router.alignment_temperature",
    "loss.semantic",
    "loss.temporal",
    "loss.overlap",
)
STEPS = RunLength(1_000_000)
TABLE: dict[int, tuple[SettingValue, ...]] = {
    0: ("softmax", 1.0, 1e-4, 0.05, -0.1, 0.02, 0.01, 0.1, 1.0, 0.05, 0.0, 0.0),
    999: ("softmax", 1.0, 1e-4, 0.05, -0.1, 0.02, 0.01, 0.1, 1.0, 0.05, 0.0, 0.0),
    1000: ("sparsemax", 1.0, 5e-5, 0.02, -0.1, 0.01, 0.01, 0.1, 1.0, 0.05, 0.01, 0.03),
    2000: ("sparsemax", 0.75, 5e-5, 0.02, -0.05, 0.01, 0.01, 0.1, 1.0, 0.05, 0.01, 0.03),
    2999: ("sparsemax", 0.50025, 5e-5, 0.02, -0.00005, 0.01, 0.01, 0.1, 1.0, 0.05, 0.01, 0.03),
    3000: ("sparsemax", 0.5, 1e-5, 0.01, 0.05, 0.005, 0.005, 0.1, 1.0, 0.05, 0.02, 0.05),
    4999: ("sparsemax", 0.5, 1e-5, 0.01, 0.05, 0.005, 0.005, 0.1, 1.0, 0.05, 0.02, 0.05),
}


def values_at(options: PhaseOptions, episode: int) -> dict[str, SettingValue]:
    phases = build_phases(options, STEPS)
    decision = phases.decide(phases.initial(), View(Progress(episodes=episode), {}, DECLARED))
    return DECLARED.with_(decision.assignments).values()


@pytest.mark.parametrize("episode", TABLE)
def test_every_coefficient_is_that_of_the_table(episode: int) -> None:
    found = values_at(PhaseOptions(), episode)
    assert [found[name] for name in COLUMNS] == [
        value if isinstance(value, str) else pytest.approx(value, abs=1e-12)
        for value in TABLE[episode]
    ]


def test_shares_of_a_run_in_episodes_are_of_its_episodes() -> None:
    shares = PhaseOptions(along="run", scale=0.0002)  # 5,000 becomes the whole run
    phases = build_phases(shares, RunLength(1_000_000, total_episodes=500))
    for episode in (0, 99, 110, 310):
        decision = phases.decide(phases.initial(), View(Progress(1, 7, episode), {}, DECLARED))
        found = DECLARED.with_(decision.assignments).values()
        assert found == values_at(PhaseOptions(), 10 * episode)


MANAGED = ("loss.alignment", "loss.semantic", "loss.temporal", "loss.overlap")


@pytest.mark.parametrize(
    ("mode", "episode", "expected", "pull"),
    [
        ("baseline", 0, (0, 0, 0, 0), -0.1),
        ("baseline", 2000, (0, 0, 0, 0), -0.05),
        ("baseline", 4000, (0, 0, 0, 0), -0.05),
        ("manager", 0, (0.1, 0.05, 0, 0), -0.1),
        ("manager", 2000, (0.1, 0.05, 0.01, 0.03), -0.05),
        ("manager", 4000, (0.1, 0.05, 0.01, 0.03), -0.05),
        ("full", 4000, (0.1, 0.05, 0.01, 0.03), 0.05),
        ("table", 4000, (0.1, 0.05, 0.02, 0.05), 0.05),
        ("legacy", 500, (0, 0, 0, 0), -0.1),
        ("legacy", 2000, (0, 0, 0, 0), -0.05),
        ("legacy", 2900, (0, 0, 0, 0), -0.05),
        ("legacy", 4000, (0, 0, 0, 0), -0.05),
    ],
)
def test_a_mode_leaves_out_what_it_names(
    mode: Mode, episode: int, expected: tuple[float, ...], pull: float
) -> None:
    found = values_at(PhaseOptions(mode=mode), episode)
    assert [found[name] for name in MANAGED] == pytest.approx(list(expected))
    assert found["loss.alpha_entropy"] == pytest.approx(pull)


@pytest.mark.parametrize("episode", TABLE)
def test_a_short_run_sees_all_phases_when_they_are_scaled(episode: int) -> None:
    short = values_at(PhaseOptions(scale=2.0), 2 * episode)
    assert short == values_at(PhaseOptions(), episode)


def test_phases_may_be_counted_in_env_steps() -> None:
    phases = build_phases(PhaseOptions(along="env_steps", scale=1000.0), STEPS)
    view = View(Progress(env_steps=2_000_000), {}, DECLARED)
    decision = phases.decide(phases.initial(), view)
    assert DECLARED.with_(decision.assignments).values()["router.temperature"] == 0.75
    assert decision.metrics == {"curriculum/phases_phase": 2.0}


def test_a_run_may_stay_in_one_phase() -> None:
    found = values_at(PhaseOptions(only="fine-tune"), 0)
    assert found == values_at(PhaseOptions(), 4999)


def test_easing_spreads_the_steps_and_keeps_the_lines() -> None:
    eased = PhaseOptions(easing=100.0)
    assert phase_names(eased) == (
        "warm-up",
        "transition begins",
        "transition",
        "fine-tune begins",
        "fine-tune",
    )
    middle = values_at(eased, 1050)
    assert middle["learn.learning_rate"] == pytest.approx(7.5e-5)
    for episode in (999, 1100, 2000, 2999, 3100, 4999):
        plain, soft = values_at(PhaseOptions(), episode), values_at(eased, episode)
        assert soft == {
            name: value if isinstance(value, str) else pytest.approx(value, abs=1e-12)
            for name, value in plain.items()
        }


def test_a_fourth_phase_sharpens_further() -> None:
    deep = values_at(PhaseOptions(fourth="deep"), 6000)
    assert deep["router.temperature"] == pytest.approx(0.35)
    assert deep["loss.alpha_entropy"] == 0.1
    assert values_at(PhaseOptions(fourth="deep"), 9000)["router.temperature"] == 0.2
    assert values_at(PhaseOptions(fourth="aggressive"), 6000)["router.temperature"] == 0.1
    extended = values_at(PhaseOptions(fourth="extended"), 7000)
    assert extended == values_at(PhaseOptions(), 4999)


def test_one_factor_changes_all_learning_rates_and_nothing_else() -> None:
    for episode in (0, 1500, 4000):
        plain = values_at(PhaseOptions(), episode)
        faster = values_at(PhaseOptions(learning_rate_factor=3.0), episode)
        assert faster.pop(LEARNING_RATE) == pytest.approx(3 * float(plain.pop(LEARNING_RATE)))  # type: ignore[arg-type]
        assert faster == plain


def test_impossible_phases_are_refused() -> None:
    with pytest.raises(ConfigError, match="is longer than the phase 'warm-up'"):
        build_phases(PhaseOptions(easing=2500.0), STEPS)
    with pytest.raises(ConfigError, match="must be 0"):
        PhaseOptions(warm_up=PhaseCoefficients(start=5.0))
    with pytest.raises(ConfigError, match="not after 'transition'"):
        build_phases(PhaseOptions(fine_tune=PhaseCoefficients(start=500.0)), STEPS)
    with pytest.raises(ConfigError, match="must be above 0"):
        PhaseCoefficients(temperature=0.0)
