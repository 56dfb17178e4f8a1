"""Stable-Baselines3's PPO over our own environments in arrays, to measure beside our learner."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from benchmarks.peers.marks import Marks
from benchmarks.peers.network import plain_trunk
from benchmarks.peers.sb3 import callback, ppo_settings
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env.base_vec_env import VecEnv
from torch import nn

from longhaul.app.bench.training import too_few_steps
from longhaul.app.build.components import build_env, build_policy, build_settings, build_task
from longhaul.app.build.config import RunConfig
from longhaul.app.build.sources import from_values
from longhaul.core.env import VectorEnv
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.core.spaces import Discrete, EnvSpec
from longhaul.nets.actor_critic import ActorCritic
from longhaul.nets.cnn import LeanCnn
from longhaul.nets.encoder import Encoder, SharedBody

LARGEST = 1e6
"""Beyond any number that is shown; the trainer reads no more than the shape from it."""


def space_of(spec: EnvSpec) -> spaces.Space[Any]:
    """Return what one environment shows as a Gymnasium space: a box, or a dict of them."""
    found: dict[str, spaces.Space[Any]] = {
        name: spaces.Box(0, 255, part.shape, np.uint8)
        if part.dtype == "uint8"
        else spaces.Box(-LARGEST, LARGEST, part.shape, np.float32)
        for name, part in spec.observation.items()
    }
    return next(iter(found.values())) if len(found) == 1 else spaces.Dict(found)


class BatchedVecEnv(VecEnv):
    """Our environments as Stable-Baselines3 steps them, without a copy more than it asks for."""

    def __init__(self, env: VectorEnv) -> None:
        if env.spec.rows != 1 or not isinstance(env.spec.action, Discrete):
            raise ConfigError(f"{env.spec.id}: sb3 steps one body with one choice each")
        self.inner = env
        self._names = tuple(env.spec.observation)
        self._actions: Any = None
        super().__init__(env.count, space_of(env.spec), spaces.Discrete(env.spec.action.count))

    def reset(self) -> Any:
        """Begin an episode in every environment."""
        self.inner.reset()
        return self._shown()

    def step_async(self, actions: Any) -> None:
        """Take the actions of the next step."""
        self._actions = actions

    def step_wait(self) -> Any:
        """Take the step; an ended environment comes back already reset."""
        step = self.inner.step(np.ascontiguousarray(self._actions, np.int64))
        slots = step.slots
        done = slots.terminated | slots.truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if step.finals is not None:
            for place, row in enumerate(step.finals.rows.tolist()):
                final = {name: part[place] for name, part in step.finals.obs.items()}
                infos[row] = {
                    "terminal_observation": self._plain(final),
                    "TimeLimit.truncated": bool(slots.truncated[row] and not slots.terminated[row]),
                }
        return self._shown(), slots.reward.copy(), done, infos

    def _shown(self) -> Any:
        return self._plain({name: part.copy() for name, part in self.inner.slots.obs.items()})

    def _plain(self, parts: dict[str, Any]) -> Any:
        return parts[self._names[0]] if len(self._names) == 1 else parts

    def close(self) -> None:
        """End all environments."""
        self.inner.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of every environment: there is only how it is drawn, not at all."""
        if attr_name != "render_mode":
            raise AttributeError(f"environments in arrays have no attribute {attr_name!r}")
        return [None for _ in self._chosen(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refuse: environments in arrays are no objects."""
        raise AttributeError(f"environments in arrays have no attribute {attr_name!r}")

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Refuse: environments in arrays are no objects."""
        raise AttributeError(f"environments in arrays have no method {method_name!r}")

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        """Return that none is."""
        return [False for _ in self._chosen(indices)]

    def _chosen(self, indices: Any) -> Iterable[int]:
        return self._get_indices(indices)


class Features(BaseFeaturesExtractor):
    """A trunk in the place of theirs."""

    def __init__(self, observation_space: spaces.Space[Any], trunk: nn.Module, size: int) -> None:
        super().__init__(observation_space, size)
        self.trunk = trunk

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Return [N, features]."""
        features: torch.Tensor = self.trunk(observations)
        return features


def lean_trunk(config: RunConfig) -> LeanCnn:
    """Return the trunk of our own policy, if that is all there is before its heads."""
    task = build_task(config)
    policy = build_policy(config, task, torch.device("cpu"))
    body = policy.body if isinstance(policy, ActorCritic) else None
    encoder = body.encoder if isinstance(body, SharedBody) else None
    if config.learn.algorithm == "ppo" and isinstance(encoder, Encoder):
        (trunk, *others) = encoder.images.values()
        plain = not others and not encoder.vector.outputs and not config.policy.joint
        if isinstance(trunk, LeanCnn) and plain and config.policy.core == "none":
            return trunk
    raise ConfigError(
        "peers are measured with PPO over the lean trunk on pixels alone: use the preset 'pixels'"
    )


def build_sb3_batched(config: RunConfig, *, lent: bool) -> Any:
    """Return SB3's PPO with our environments, batch and epochs, and the same network.

    The network is plain layers in plain order, or our own module, if it is lent.
    """
    trunk: nn.Module = lean_trunk(config)
    size = config.policy.image_features
    task = build_task(config)
    env = build_env(config, task, DerivedSeeds(Seeds(config.seed)), config.num_envs)
    env.configure(build_settings(config, task))
    vec_env = BatchedVecEnv(env)
    if not lent:
        channels, height, width = vec_env.observation_space.shape or ()
        trunk = plain_trunk((channels, height, width), size)
    return PPO(
        "CnnPolicy",
        vec_env,
        n_steps=config.collect.num_steps,
        policy_kwargs={
            "features_extractor_class": Features,
            "features_extractor_kwargs": {"trunk": trunk, "size": size},
            "net_arch": [],
            # Ours scales bytes itself.
            "normalize_images": not lent,
        },
        **ppo_settings(config),
    )


def measure_sb3_batched(config: RunConfig, *, threads: int, lent: bool) -> dict[str, float]:
    """Return SB3's steps per second and per CPU-second; its first iteration does not count."""
    torch.set_num_threads(threads)
    marks = Marks(time.process_time)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = build_sb3_batched(config, lent=lent)

        def at_rollout_start() -> None:
            if model.num_timesteps:
                marks(model.num_timesteps)

        model.learn(config.total_timesteps, callback=callback(at_rollout_start))
    marks(model.num_timesteps)
    model.env.close()
    if marks.count < 2:
        raise too_few_steps()
    return marks.rates()


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    found = measure_sb3_batched(
        from_values(asked["config"]), threads=asked["threads"], lent=asked["lent"]
    )
    sys.stdout.write(json.dumps(found) + "\n")
