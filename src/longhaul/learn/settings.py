"""The settings learners read; schedules may change them between rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from longhaul.core.settings import Setting, Settings
from longhaul.learn.config import LearnConfig

_DEFAULTS = LearnConfig()

LEARNING_RATE = Setting(
    "learn.learning_rate", _DEFAULTS.learning_rate, "step size of AdamW", low=0.0
)
DISCOUNT = Setting(
    "learn.discount", _DEFAULTS.discount, "worth of the next step's reward", low=0.0, high=1.0
)
CLIP_RANGE = Setting(
    "learn.clip_range", _DEFAULTS.clip_range, "how far PPO's ratio may leave 1", low=0.0
)
ENTROPY_WEIGHT = Setting(
    "learn.entropy_weight", _DEFAULTS.entropy_weight, "weight of the entropy bonus", low=0.0
)
VALUE_WEIGHT = Setting(
    "learn.value_weight", _DEFAULTS.value_weight, "weight of the value loss", low=0.0
)
REPLAY_WEIGHT = Setting(
    "learn.replay_weight", _DEFAULTS.replay.weight, "weight of the replay loss, if any", low=0.0
)
REPLAY_POLICY_WEIGHT = Setting(
    "learn.replay_policy_weight",
    _DEFAULTS.replay.policy_weight,
    "weight of the policy's part within the replay loss",
    low=0.0,
)
REPLAY_ALPHA = Setting(
    "learn.replay_alpha",
    _DEFAULTS.replay.alpha,
    "how much priorities count when sequences are drawn",
    low=0.0,
    high=1.0,
)
REPLAY_BETA = Setting(
    "learn.replay_beta",
    _DEFAULTS.replay.beta,
    "how far importance weights correct for the priorities",
    low=0.0,
    high=1.0,
)


CONFIG_KEYS: Mapping[str, str] = {
    **{
        setting.name: setting.name
        for setting in (LEARNING_RATE, DISCOUNT, CLIP_RANGE, ENTROPY_WEIGHT, VALUE_WEIGHT)
    },
    **{
        setting.name: setting.name.replace("learn.replay_", "learn.replay.")
        for setting in (REPLAY_WEIGHT, REPLAY_POLICY_WEIGHT, REPLAY_ALPHA, REPLAY_BETA)
    },
}
"""For each setting the config key it begins with."""


def learn_settings(config: LearnConfig) -> tuple[Setting[float], ...]:
    """Return the declarations of all settings learners read, beginning at the config's values."""
    return (
        replace(LEARNING_RATE, default=config.learning_rate),
        replace(DISCOUNT, default=config.discount),
        replace(CLIP_RANGE, default=config.clip_range),
        replace(ENTROPY_WEIGHT, default=config.entropy_weight),
        replace(VALUE_WEIGHT, default=config.value_weight),
        replace(REPLAY_WEIGHT, default=config.replay.weight),
        replace(REPLAY_POLICY_WEIGHT, default=config.replay.policy_weight),
        replace(REPLAY_ALPHA, default=config.replay.alpha),
        replace(REPLAY_BETA, default=config.replay.beta),
    )


def aux_weight(settings: Settings, name: str) -> float:
    """Return the weight of a policy's own loss: the setting `loss.<name>`, or 1 without one."""
    full_name = f"loss.{name}"
    if full_name not in settings:
        return 1.0
    value = settings[settings.declaration(full_name)]
    assert isinstance(value, (int, float)), "a loss weight is declared as a number"
    return float(value)
