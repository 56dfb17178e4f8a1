"""Stable-Baselines3's PPO under the same conditions, to measure beside ours."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from benchmarks.peers.marks import Marks

from longhaul.app.build.config import RunConfig
from longhaul.app.build.sources import Reference, from_values
from longhaul.core.errors import ConfigError
from longhaul.learn.config import PPOConfig


def measure_sb3(config: RunConfig) -> float:
    """Return SB3's steps a second with our environment, network, batch and epochs.

    The first iteration is left out, as it is in our own measurement.
    """
    # Our own measurement leaves torch in its deterministic mode, which would slow the peer down.
    torch.set_deterministic_debug_mode("default")
    model = build_sb3(config)
    marks: list[tuple[float, int]] = []

    def at_rollout_start() -> None:
        marks.append((time.perf_counter(), model.num_timesteps))

    model.learn(config.total_timesteps, callback=callback(at_rollout_start))
    marks.append((time.perf_counter(), model.num_timesteps))
    if len(marks) < 3:
        raise ConfigError("too few steps to measure; raise --total-timesteps")
    (began, before), (ended, after) = marks[1], marks[-1]
    return (after - before) / (ended - began)


@dataclass(frozen=True, slots=True)
class StableBaselines:
    """What is used of Stable-Baselines3."""

    PPO: Any
    DummyVecEnv: Any
    SubprocVecEnv: Any
    VecFrameStack: Any
    AtariWrapper: Any


def load_sb3() -> StableBaselines:
    """Return the parts of Stable-Baselines3, or say how to get it."""
    try:
        from stable_baselines3 import PPO
        from stable_baselines3.common.atari_wrappers import AtariWrapper
        from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack
    except ImportError:
        raise ConfigError(
            "this needs Stable-Baselines3: pip install -c constraints.txt 'longhaul-rl[peers]'"
        ) from None
    return StableBaselines(PPO, DummyVecEnv, SubprocVecEnv, VecFrameStack, AtariWrapper)


def gymnasium_envs(stable: StableBaselines, config: RunConfig) -> Any:
    """Return a gym: task's environments as SB3's users make them."""
    kwargs = dict(config.options.get("kwargs", {}))
    if limit := config.options.get("max_episode_steps", 0):
        kwargs["max_episode_steps"] = limit
    name = Reference.parse(config.task).argument
    return stable.DummyVecEnv([lambda: gym.make(name, **kwargs)] * config.num_envs)


def atari_envs(stable: StableBaselines, config: RunConfig) -> Any:
    """Return a game in SB3's own wrappers, in as many processes as there are games."""

    def make() -> Any:
        import ale_py

        gym.register_envs(ale_py)
        game = f"ALE/{Reference.parse(config.task).argument}-v5"
        return stable.AtariWrapper(gym.make(game, frameskip=1, repeat_action_probability=0.0))

    return stable.VecFrameStack(stable.SubprocVecEnv([make] * config.num_envs), 4)


ENVS = {"gym": gymnasium_envs, "atari": atari_envs}


def build_sb3(config: RunConfig) -> Any:
    """Return SB3's PPO set up as our configuration says."""
    stable = load_sb3()
    kind = Reference.parse(config.task).kind
    if kind not in ENVS or config.learn.algorithm != "ppo" or config.policy.core != "none":
        raise ConfigError("sb3 is compared with PPO without a memory on gym: and atari: tasks only")
    from torch import nn

    env = ENVS[kind](stable, config)
    images = len(env.observation_space.shape or ()) == 3
    activation = {"tanh": nn.Tanh, "relu": nn.ReLU, "silu": nn.SiLU, "gelu": nn.GELU}
    network: dict[str, Any] = (
        {}
        if images
        else {
            "net_arch": list(config.policy.hidden),
            "activation_fn": activation[config.policy.activation],
        }
    )
    return stable.PPO(
        "CnnPolicy" if images else "MlpPolicy",
        env,
        n_steps=config.collect.num_steps,
        policy_kwargs=network,
        **ppo_settings(config),
    )


def ppo_settings(config: RunConfig) -> dict[str, Any]:
    """Return the arguments of SB3's PPO, the same as ours is."""
    learn = config.learn
    if not isinstance(learn, PPOConfig):
        raise ConfigError(f"SB3 is measured with PPO, not learn.algorithm = {learn.algorithm!r}")
    return {
        "batch_size": learn.minibatch_size,
        "n_epochs": learn.n_epochs,
        "learning_rate": learn.learning_rate,
        "gamma": learn.gamma,
        "gae_lambda": learn.gae_lambda,
        "clip_range": learn.clip_range,
        "ent_coef": learn.ent_coef,
        "vf_coef": learn.vf_coef,
        "max_grad_norm": learn.max_grad_norm,
        "seed": config.seed,
        "device": "cpu",
    }


def callback(at_rollout_start: Any) -> Any:
    """Return SB3's callback that calls a function at the start of every rollout."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Marks(BaseCallback):
        """Takes the time at the start of every rollout."""

        def _on_step(self) -> bool:
            return True

        def _on_rollout_start(self) -> None:
            at_rollout_start()

    return Marks()


def measure_alone(config: RunConfig) -> dict[str, float]:
    """Return the speed by wall clock and by processor time, that of other processes included."""
    torch.set_num_threads(config.threads)
    model = build_sb3(config)
    marks = Marks()
    model.learn(config.total_timesteps, callback=callback(lambda: marks(model.num_timesteps)))
    marks(model.num_timesteps)
    # The first mark is taken before anything is collected.
    return marks.rates(skip=1)


if __name__ == "__main__":
    found = measure_alone(from_values(json.loads(sys.argv[1])))
    sys.stdout.write("\n" + json.dumps(found) + "\n")
