from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest

from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.learn.config import (
    LEARNING_RATE,
    PPOConfig,
    aux_weight,
    learn_settings,
)


def changed(name: str, value: Any) -> PPOConfig:
    return PPOConfig(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", 0.0),
        ("learning_rate", math.nan),
        ("gamma", 1.1),
        ("gae_lambda", -0.1),
        ("clip_range", 0.0),
        ("n_epochs", 0),
        ("minibatch_size", 0),
        ("accumulate", 0),
        ("adam_beta1", 1.0),
        ("max_grad_norm", -1.0),
        ("reward_clip", math.inf),
    ],
)
def test_an_impossible_value_is_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"learn\.{name} = "):
        changed(name, value)


def test_every_number_is_checked() -> None:
    for field in fields(PPOConfig):
        if isinstance(field.default, float):
            with pytest.raises(ConfigError, match=field.name):
                changed(field.name, math.nan)


def test_settings_begin_at_the_configs_values() -> None:
    settings = Settings(learn_settings(PPOConfig(learning_rate=0.125)))
    assert settings[LEARNING_RATE] == 0.125


def test_an_undeclared_loss_weight_is_one() -> None:
    assert aux_weight(Settings(learn_settings(PPOConfig())), "balance") == 1.0
