from __future__ import annotations

import pytest

from longhaul.core.errors import ConfigError
from longhaul.learn.config import (
    BUILT_IN,
    CONFIGS,
    PPOConfig,
    VTraceConfig,
    config_class,
    find_learner,
    foreign_keys,
)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_learner_is_found_with_its_own_config(name: str) -> None:
    assert find_learner(name).config_class is CONFIGS[name] is config_class(name)
    assert config_class(name)().algorithm in BUILT_IN


def test_an_unknown_learner_is_named_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'pqo'; did you mean 'ppo'\? \(choices: ppo, vtrace"):
        config_class("pqo")


def test_keys_of_another_learner_are_known_to_be_foreign() -> None:
    assert foreign_keys(VTraceConfig) == {"gae_lambda", "clip_range", "clip_range_vf", "target_kl"}
    assert foreign_keys(PPOConfig) == frozenset()
