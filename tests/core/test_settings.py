from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from longhaul.core.errors import ConfigError
from longhaul.core.settings import Assignment, Setting, Settings, SettingValue

RATE = Setting("learn.learning_rate", 3e-4, "Step size", low=0.0, high=1.0)
STAGE = Setting("gate.stage", 0, "Stage", low=0)
ROUTER = Setting("policy.router", "softmax", "Router")
FROZEN = Setting("learn.frozen", default=False, meaning="Whether weights stay")
STARTS: Setting[tuple[SettingValue, ...]] = Setting("env.starts", (), "Hard starts")
DECLARED: list[Setting[Any]] = [RATE, STAGE, ROUTER, FROZEN, STARTS]


def test_settings_begin_at_their_defaults() -> None:
    settings = Settings(DECLARED)
    assert settings.values() == {
        "learn.learning_rate": 3e-4,
        "gate.stage": 0,
        "policy.router": "softmax",
        "learn.frozen": False,
        "env.starts": (),
    }
    assert settings[RATE] == 3e-4


def test_given_values_replace_defaults() -> None:
    assert Settings(DECLARED, {"gate.stage": 2})[STAGE] == 2


def test_changing_a_setting_leaves_the_old_settings_as_they_were() -> None:
    before = Settings(DECLARED)
    after = before.with_([RATE.to(0.1), ROUTER.to("sparsemax")])
    assert (before[RATE], before[ROUTER]) == (3e-4, "softmax")
    assert (after[RATE], after[ROUTER], after[STAGE]) == (0.1, "sparsemax", 0)


def test_the_values_handed_out_are_a_copy() -> None:
    settings = Settings(DECLARED)
    settings.values()["gate.stage"] = 3
    assert settings[STAGE] == 0


def test_changing_nothing_gives_the_same_settings() -> None:
    settings = Settings(DECLARED)
    assert settings.with_([]) is settings


def test_a_whole_number_is_taken_for_a_float() -> None:
    value = Settings(DECLARED).with_([Assignment(RATE.name, 1)])[RATE]
    assert (value, type(value)) == (1.0, float)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learn.learning_rate", "fast"),
        ("learn.learning_rate", True),
        ("gate.stage", 1.0),
        ("gate.stage", True),
        ("policy.router", 3),
        ("learn.frozen", 0),
        ("env.starts", "a"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(name: str, value: SettingValue) -> None:
    with pytest.raises(ConfigError, match=f"setting '{name}' holds .*, not {value!r}"):
        Settings(DECLARED, {name: value})


@pytest.mark.parametrize("value", [-0.1, 1.1, math.inf, -math.inf, math.nan])
def test_a_value_out_of_range_is_refused(value: float) -> None:
    with pytest.raises(ConfigError, match=r"is outside \[0.0, 1.0\]"):
        Settings(DECLARED).with_([RATE.to(value)])


def test_a_range_may_be_open_at_one_side() -> None:
    assert Settings(DECLARED).with_([STAGE.to(10**9)])[STAGE] == 10**9
    with pytest.raises(ConfigError, match=r"= -1 is outside \[0, None\]"):
        Settings(DECLARED).with_([STAGE.to(-1)])


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'learn\.learning_rate'"):
        Settings(DECLARED, {"learn.learnin_rate": 0.1})


def test_a_setting_declared_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'gate\.stage' is declared twice"):
        Settings([STAGE, STAGE])


def test_names_can_be_asked_for_and_listed() -> None:
    settings = Settings(DECLARED)
    assert "gate.stage" in settings
    assert "gate.stages" not in settings
    assert list(settings) == [setting.name for setting in DECLARED]
    assert settings.declaration("gate.stage") is STAGE


values = st.fixed_dictionaries(
    {},
    optional={
        "learn.learning_rate": st.floats(0, 1),
        "gate.stage": st.integers(0, 50),
        "policy.router": st.text(max_size=5),
        "learn.frozen": st.booleans(),
        "env.starts": st.lists(st.tuples(st.integers(), st.text(max_size=2))).map(tuple),
    },
)


@hypothesis_settings(max_examples=50)
@given(held=values)
def test_settings_made_from_their_own_values_are_equal(held: dict[str, SettingValue]) -> None:
    settings = Settings(DECLARED, held)
    again = Settings(DECLARED, settings.values())
    assert again == settings
    assert hash(again) == hash(settings)
    assert Settings(DECLARED).with_(Assignment(*item) for item in held.items()) == settings


def test_different_values_make_different_settings() -> None:
    assert Settings(DECLARED) != Settings(DECLARED, {"gate.stage": 1})
    assert Settings(DECLARED) != {"gate.stage": 0}
