"""Config files with Stable-Baselines3's names for PPO, as RL Baselines3 Zoo has them.

Such a file is flat. Keys it leaves out have Stable-Baselines3's defaults, not the task's preset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longhaul.core.config import merge, unflatten
from longhaul.core.errors import ConfigError

OURS = {
    "n_envs": "num_envs",
    "n_timesteps": "total_timesteps",
    "n_steps": "collect.num_steps",
    "batch_size": "learn.minibatch_size",
    **{
        key: f"learn.{key}"
        for key in (
            *("learning_rate", "gamma", "gae_lambda", "n_epochs", "clip_range", "clip_range_vf"),
            *("ent_coef", "vf_coef", "max_grad_norm", "target_kl", "normalize_advantage"),
        )
    },
}
DEFAULTS: dict[str, Any] = {
    "n_steps": 2048,
    "batch_size": 64,
    "n_epochs": 10,
    "learning_rate": 3e-4,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip_range": 0.2,
    "ent_coef": 0.0,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
    "policy": "MlpPolicy",
}
"""The defaults of `stable_baselines3.PPO`."""
ONLY_THERE = ("n_envs", "n_timesteps", "n_steps", "batch_size", "n_epochs")
"""Keys that longhaul's configs do not have at the top level; all are whole numbers."""
NETWORKS: dict[str, dict[str, Any]] = {
    "MlpPolicy": {"hidden": [64, 64], "activation": "tanh"},
    "MlpLstmPolicy": {"hidden": [64, 64], "activation": "tanh", "core": "lstm", "core_size": 256},
    "CnnPolicy": {},
    "MultiInputPolicy": {},
}
LINEAR = "lin_"
"""The zoo's prefix for a value that falls linearly to 0 over the run."""


def is_sb3(values: Mapping[str, Any]) -> bool:
    """Whether these are the names of Stable-Baselines3."""
    return isinstance(values.get("policy"), str) or any(key in values for key in ONLY_THERE)


def from_sb3(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values under longhaul's keys; raise for keys without a counterpart."""
    found: dict[str, Any] = {}
    schedule: list[dict[str, Any]] = []
    for key, value in {**DEFAULTS, **values}.items():
        if key == "policy":
            found = merge(found, {"policy": _network(value)})
        elif key == "normalize":
            found = merge(found, _normalized(value))
        elif key in OURS:
            number, falls = _number(key, value)
            found = merge(found, unflatten({OURS[key]: number}))
            if falls:
                schedule.append({"kind": "ramp", "name": key, "setting": OURS[key]})
        else:
            raise ConfigError(
                f"the config has Stable-Baselines3's names, and {key!r} has no counterpart here; "
                f"remove it, or use longhaul's names (known: {', '.join(sorted(OURS))}, normalize)"
            )
    return {**found, "schedule": schedule}


def _network(name: Any) -> dict[str, Any]:
    if name not in NETWORKS:
        raise ConfigError(f"policy = {name!r} is not one of {', '.join(NETWORKS)}")
    return NETWORKS[name]


def _normalized(value: Any) -> dict[str, Any]:
    """Return our keys for `normalize`: a boolean, or a table with `norm_obs`, `norm_reward`."""
    chosen = value if isinstance(value, Mapping) else {"norm_obs": value, "norm_reward": value}
    return {
        "policy": {"normalize_observations": chosen.get("norm_obs", True)},
        "learn": {"normalize_reward": chosen.get("norm_reward", True)},
    }


def _number(key: str, value: Any) -> tuple[Any, bool]:
    """Return a value and whether it falls to 0 over the run."""
    falls = isinstance(value, str) and value.startswith(LINEAR)
    if isinstance(value, str):
        try:
            value = float(value.removeprefix(LINEAR))
        except ValueError:
            raise ConfigError(
                f"{key} = {value!r} must be a number, or 'lin_' followed by a number"
            ) from None
    whole = key in ONLY_THERE and isinstance(value, float) and value.is_integer()
    return (int(value) if whole else value), falls
