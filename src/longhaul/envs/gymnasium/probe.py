"""Finding out about a Gymnasium environment by making one, here or in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import gymnasium as gym
from gymnasium.envs.registration import find_highest_version, get_env_id, parse_env_id

from longhaul.core.env import SingleEnvs
from longhaul.core.errors import EnvError
from longhaul.envs.config import EnvConfig
from longhaul.envs.gymnasium.env import GymnasiumFactory, gymnasium_envs
from longhaul.envs.processes.isolated import call_with_retries

MOST_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Known:
    """What is found out about an environment by making it."""

    envs: SingleEnvs
    solved: float | None


def look(factory: GymnasiumFactory, config: EnvConfig) -> Known:
    """Return what an environment is; one that is to stay out of this process is made elsewhere."""
    if config.runtime != "processes":
        return _look(factory)
    limits = config.processes
    try:
        known = call_with_retries(
            partial(_look, factory),
            seconds=limits.construct_seconds,
            attempts=min(MOST_ATTEMPTS, limits.construct_restarts + 1),
        )
    except EnvError as error:
        if str(error).startswith("environment "):
            raise
        raise EnvError(f"environment {factory.env_id!r} cannot be made: {error}") from error
    return replace(known, envs=replace(known.envs, prefers_processes=True))


def _look(factory: GymnasiumFactory) -> Known:
    return Known(gymnasium_envs(factory), _threshold(factory.env_id))


def _threshold(env_id: str) -> float | None:
    """Return the score Gymnasium counts as solved, for an id from which envs were made."""
    # `gym.make` takes a module in front and fills in a missing version, `gym.spec` does neither.
    known = env_id.rpartition(":")[2]
    if known not in gym.registry:
        namespace, name, _ = parse_env_id(known)
        known = get_env_id(namespace, name, find_highest_version(namespace, name))
    return gym.spec(known).reward_threshold
