"""Steps a second of our runtimes beside other libraries' vectors of the same Gymnasium env."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks import command
from longhaul.app.bench.table import SpeedTable
from longhaul.app.bench.training import DRAWN, Advance, EnvBenchRequest, bench_env
from longhaul.app.build.config import RunConfig
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.diagnose.api_check import GymnasiumId
from longhaul.core.errors import ConfigError


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
            "this needs Stable-Baselines3: pip install -c constraints.txt 'longhaul[peers]'"
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


PEERS = {
    "gymnasium": ("gymnasium AsyncVectorEnv", gymnasium_async),
    "sb3": ("sb3 SubprocVecEnv", sb3_subproc),
}
"""Their titles, and how they are made; all have one process per environment."""


def bench_vectors(
    config: RunConfig, request: EnvBenchRequest, chosen: Sequence[str] = tuple(PEERS)
) -> SpeedTable:
    """Measure our runtimes and the chosen peers in turn."""
    named = GymnasiumId.of(config)
    if named is None:
        raise ConfigError(f"only gym: tasks are compared, not {config.task}")
    peers = {
        title: partial(make, named, request.num_envs)
        for title, make in (PEERS[name] for name in chosen)
    }
    return bench_env(config, request, peers)


def main(words: Sequence[str]) -> None:
    """Measure and print."""
    parser = command.parser("vectors", __doc__, task="gym:longhaul/FreePixels-v0")
    parser.add_argument("--peer", choices=(*PEERS, "all"), default="all")
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--runtime", default="both", help="ours: serial, processes or both")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    asked = parser.parse_args(words)
    request = EnvBenchRequest(asked.num_envs, asked.runtime, asked.seconds, asked.repeats)
    config = resolve(ConfigSources(asked.task, overrides=asked.overrides))
    chosen = tuple(PEERS) if asked.peer == "all" else (asked.peer,)
    command.show(bench_vectors(config, request, chosen), as_json=asked.json)


if __name__ == "__main__":
    command.run(main)
