"""Other libraries' vector environments on the same Gymnasium env, to measure beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np

from longhaul.app.gymnasium_id import GymnasiumId
from longhaul.core.errors import ConfigError

Advance = Callable[[int], None]
"""Takes the n-th step in every environment."""
DRAWN = 64


@contextmanager
def gymnasium_async(named: GymnasiumId, num_envs: int) -> Iterator[Advance]:
    """Give Gymnasium's AsyncVectorEnv with shared memory, reset and ready to step."""
    vector = gym.vector.AsyncVectorEnv([named.make] * num_envs, shared_memory=True, context="spawn")
    try:
        vector.action_space.seed(1)
        actions = [vector.action_space.sample() for _ in range(DRAWN)]
        vector.reset(seed=1)

        def advance(number: int) -> None:
            vector.step(actions[number % DRAWN])

        yield advance
    finally:
        vector.close()


@contextmanager
def sb3_subproc(named: GymnasiumId, num_envs: int) -> Iterator[Advance]:
    """Give Stable-Baselines3's SubprocVecEnv, reset and ready to step."""
    try:
        from stable_baselines3.common.vec_env import SubprocVecEnv
    except ImportError:
        raise ConfigError(
            "--peer sb3 needs Stable-Baselines3: pip install -c constraints.txt 'longhaul[peers]'"
        ) from None
    # A fork server would stay for the life of this process, without what others want preloaded.
    vector: Any = SubprocVecEnv([named.make] * num_envs, start_method="spawn")
    try:
        vector.action_space.seed(1)
        actions = [
            np.stack([vector.action_space.sample() for _ in range(num_envs)]) for _ in range(DRAWN)
        ]
        vector.seed(1)
        vector.reset()

        def advance(number: int) -> None:
            vector.step(actions[number % DRAWN])

        yield advance
    finally:
        vector.close()


PEERS = {"gymnasium": gymnasium_async, "sb3": sb3_subproc}
TITLES = {"gymnasium": "gymnasium AsyncVectorEnv", "sb3": "sb3 SubprocVecEnv"}
