"""Gymnasium environments that are odd in one way each, registered under `Toy/<Name>-v0`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

Result = tuple[Any, float, bool, bool, dict[str, Any]]


class Walk(gym.Env[Any, Any]):
    """A random walk of eight steps that pays for the action 1; keeps every promise."""

    observation_space: gym.Space[Any] = gym.spaces.Box(-100.0, 100.0, (2,), np.float32)
    action_space: gym.Space[Any] = gym.spaces.Discrete(2)

    def __init__(self) -> None:
        self.position = 0.0
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.position = 0.0
        self.steps = 0
        return self.look(), {}

    def step(self, action: Any) -> Result:
        self.steps += 1
        self.position += float(self.np_random.normal())
        return self.look(), float(action), self.steps >= 8, False, {}

    def look(self) -> Any:
        return np.array([self.position, self.steps], np.float32)


class Forgetful(Walk):
    """Has a snapshot that leaves out the generator, so that a restored walk goes elsewhere."""

    def snapshot(self) -> dict[str, Any]:
        return {"position": self.position, "steps": self.steps}

    def restore(self, state: dict[str, Any]) -> None:
        self.position = float(state["position"])
        self.steps = int(state["steps"])


class Unseeded(Walk):
    """Draws from a generator that no seed reaches."""

    chance = np.random.default_rng()

    def step(self, action: Any) -> Result:
        self.position += float(self.chance.normal())
        return super().step(action)


class BrokenReset(Walk):
    """Cannot begin an episode."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        raise RuntimeError("the simulator did not start")


class BrokenStep(Walk):
    """Dies in the middle of an episode."""

    def step(self, action: Any) -> Result:
        if self.steps == 5:
            raise RuntimeError("the simulator fell over")
        return super().step(action)


class NanReward(Walk):
    """Pays something that is not a number."""

    def step(self, action: Any) -> Result:
        obs, _, terminated, truncated, facts = super().step(action)
        return obs, float("nan") if self.steps == 5 else 0.0, terminated, truncated, facts


class NanObservation(Walk):
    """Shows something that is not a number."""

    def look(self) -> Any:
        return np.full(2, np.nan if self.steps == 5 else 0.0, np.float32)


class TextObservation(Walk):
    """Shows text, which no network here reads."""

    observation_space: gym.Space[Any] = gym.spaces.Text(8)


class GraphAction(Walk):
    """Wants a graph for an action."""

    action_space: gym.Space[Any] = gym.spaces.Graph(
        gym.spaces.Box(0.0, 1.0, (1,)), gym.spaces.Discrete(2)
    )


TOYS = (
    Walk,
    Forgetful,
    Unseeded,
    BrokenReset,
    BrokenStep,
    NanReward,
    NanObservation,
    TextObservation,
    GraphAction,
)


def register_toys() -> None:
    """Make the toys known to Gymnasium; does nothing the second time."""
    for toy in TOYS:
        if f"Toy/{toy.__name__}-v0" not in gym.registry:
            gym.register(f"Toy/{toy.__name__}-v0", f"{toy.__module__}:{toy.__name__}")
