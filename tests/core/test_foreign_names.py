"""Names of other libraries lead to our keys."""

from __future__ import annotations

import pytest

from longhaul.app.build.config import RunConfig
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.core.config import key_paths
from longhaul.core.errors import ConfigError
from longhaul.core.metrics import foreign_names
from longhaul.learn.config import PPOConfig
from tests.app.small import CARTPOLE

KEYS = (*key_paths(RunConfig), *key_paths(PPOConfig, where="learn"))


def test_every_foreign_name_leads_to_a_key_of_the_config() -> None:
    assert set(foreign_names().values()) <= set(KEYS)
    assert not foreign_names().keys() & {key.rpartition(".")[2] for key in KEYS}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("learn.discount", "learn.gamma"),
        ("gamma", "learn.gamma"),
        ("learn.value_coef", "learn.vf_coef"),
        ("learn.lr", "learn.learning_rate"),
        ("learn.n_steps", "collect.num_steps"),
        ("learn.clip", "learn.clip_range"),
        ("norm_obs", "policy.normalize_observations"),
        ("learn.gae_decay", "learn.gae_lambda"),
        ("learn.entropy_weight", "learn.ent_coef"),
        ("learn.batch_size", "learn.minibatch_size"),
        ("learn.update_epochs", "learn.n_epochs"),
        ("n_envs", "num_envs"),
        ("options.discount", "learn.gamma"),
        ("learn.total_timesteps", "total_timesteps"),
        ("learning_rate", "learn.learning_rate"),
        ("learn.epoch", "learn.n_epochs"),
        ("lern", "learn"),
    ],
)
def test_an_unknown_key_is_answered_with_the_one_that_is_meant(typed: str, meant: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        resolve(ConfigSources(CARTPOLE, overrides=(f"{typed}=1",)))
    assert str(refusal.value) == f"unknown config key {typed!r}; did you mean {meant!r}?"


def test_a_key_like_no_other_is_answered_with_where_to_look() -> None:
    with pytest.raises(ConfigError, match=r"'learn\.foo'; `longhaul config TASK` lists all keys"):
        resolve(ConfigSources(CARTPOLE, overrides=("learn.foo=1",)))


@pytest.mark.parametrize("kind", ["ramp", "nudge", "adaptive"])
def test_a_foreign_name_of_a_setting_is_answered_with_ours(kind: str) -> None:
    limits = "" if kind == "ramp" else ", metric='train/loss', band=[0,1], limits=[0.5,2]"
    table = f"schedule=[{{kind='{kind}', name='x', setting='learn.lr'{limits}}}]"
    with pytest.raises(ConfigError, match=r"did you mean 'learn\.learning_rate'\?"):
        resolve(ConfigSources(CARTPOLE, overrides=(table, "learn.gamma=0.9")))
