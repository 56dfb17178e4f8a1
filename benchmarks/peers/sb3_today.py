"""Training on the game as users of Stable-Baselines3 do it without longhaul.

This file is run as a script by a Python that has gym-super-mario-bros, NumPy 1 and
Stable-Baselines3 but not longhaul (`make peers-mario` makes one). It writes agent steps a second.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def beside(name: str) -> ModuleType:
    """Return a module that lies beside this file, which is part of no package here."""
    found = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def make_game() -> Any:
    """Return one game with the usual wrappers, watched as SB3's own helper does it."""
    from stable_baselines3.common.monitor import Monitor

    return Monitor(beside("mario").make_pipeline())


def build(asked: dict[str, Any]) -> Any:
    """Return SB3's PPO over one process per game."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from stable_baselines3.common.vec_env import SubprocVecEnv

    class Features(BaseFeaturesExtractor):
        """The network of the comparison."""

        def __init__(self, observation_space: Any, outputs: int) -> None:
            super().__init__(observation_space, outputs)
            self.trunk = beside("network").plain_trunk(observation_space.shape, outputs)

        def forward(self, observations: Any) -> Any:
            """Return [N, features]."""
            return self.trunk(observations)

    return PPO(
        "CnnPolicy",
        SubprocVecEnv([make_game] * asked["num_envs"], start_method="spawn"),
        n_steps=asked["steps"],
        batch_size=asked["minibatch_size"],
        n_epochs=asked["n_epochs"],
        policy_kwargs={
            "features_extractor_class": Features,
            "features_extractor_kwargs": {"outputs": asked["outputs"]},
            "net_arch": [],
        },
        device="cpu",
    )


def measure(asked: dict[str, Any]) -> dict[str, float]:
    """Return the speed of some iterations after the first."""
    import torch
    from stable_baselines3.common.callbacks import BaseCallback

    torch.set_num_threads(asked["threads"])
    model = build(asked)
    marks = beside("marks").Marks()

    class AtRolloutStart(BaseCallback):
        """Takes the time at the start of every rollout but the first."""

        def _on_step(self) -> bool:
            return True

        def _on_rollout_start(self) -> None:
            if model.num_timesteps:
                marks(model.num_timesteps)

    steps = asked["iterations"] * asked["steps"] * asked["num_envs"]
    model.learn(steps, callback=AtRolloutStart())
    marks(model.num_timesteps)
    model.env.close()
    found: dict[str, float] = marks.rates()
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(json.loads(sys.argv[1]))) + "\n")
