"""A config with Stable-Baselines3's names trains as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from longhaul.app.build.config import RunConfig, SessionOptions
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.core.errors import ConfigError
from longhaul.runs.logs.jsonl import read_rows
from tests.app.small import CARTPOLE

# RL Baselines3 Zoo's hyperparameters of PPO for CartPole-v1.
ZOO = """
n_envs = 8
n_timesteps = 1e5
policy = "MlpPolicy"
n_steps = 32
batch_size = 256
gae_lambda = 0.8
gamma = 0.98
n_epochs = 20
ent_coef = 0.0
learning_rate = "lin_0.001"
clip_range = "lin_0.2"
"""


def resolved(tmp_path: Path, text: str, *overrides: str) -> RunConfig:
    file = tmp_path / "zoo.toml"
    file.write_text(text)
    return resolve(ConfigSources(CARTPOLE, file=file, overrides=overrides))


def test_every_key_of_the_zoo_arrives_at_ours(tmp_path: Path) -> None:
    config = resolved(tmp_path, ZOO)
    learn = config.learn
    assert (config.num_envs, config.total_timesteps, config.collect.num_steps) == (8, 100_000, 32)
    assert (learn.minibatch_size, learn.n_epochs, learn.gamma) == (256, 20, 0.98)
    assert (learn.ent_coef, learn.learning_rate) == (0.0, 0.001)
    assert config.policy.hidden == (64, 64)
    assert {table["setting"] for table in config.schedule} == {
        "learn.learning_rate",
        "learn.clip_range",
    }


def test_it_trains_and_both_linear_values_fall(tmp_path: Path) -> None:
    config = resolved(
        tmp_path, ZOO, "total_timesteps=2048", "evaluate.final_episodes=0", "report.at_end=false"
    )
    run = begin_run(config, tmp_path / "runs").directory
    assert run_session(run, config, SessionOptions(quiet=True)).exit_code == 0
    rates = [row["train/learning_rate"] for row in read_rows(run.metrics).rows]
    assert rates[0] == 0.001
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.0003


def test_keys_left_out_have_the_other_librarys_defaults_not_the_presets(tmp_path: Path) -> None:
    config = resolved(tmp_path, "n_envs = 4")
    assert (config.collect.num_steps, config.learn.minibatch_size) == (2048, 64)
    assert (config.learn.n_epochs, config.learn.gamma) == (10, 0.99)
    assert config.schedule == ()


def test_normalize_sets_both_normalizers(tmp_path: Path) -> None:
    both = resolved(tmp_path, "n_envs = 4\nnormalize = true")
    assert both.policy.normalize_observations
    assert both.learn.normalize_reward
    one = resolved(tmp_path, "n_envs = 4\nnormalize = {norm_obs = true, norm_reward = false}")
    assert one.policy.normalize_observations
    assert not one.learn.normalize_reward


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n_envs = 4\nuse_sde = true", "'use_sde' has no counterpart here"),
        ('policy = "MyPolicy"', "policy = 'MyPolicy' is not one of MlpPolicy"),
        ('n_envs = 4\nlearning_rate = "slow"', "learning_rate = 'slow' must be a number"),
    ],
)
def test_what_has_no_counterpart_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        resolved(tmp_path, text)
