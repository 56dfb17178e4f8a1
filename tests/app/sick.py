"""Gymnasium environments and a learner that are sick in one way each."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from longhaul.core.metrics import Metrics
from longhaul.core.rollout import Rollout
from longhaul.core.settings import Settings
from longhaul.learn.ppo import PPO
from tests.app.toys import Result, Walk

LONGEST_HANG = 60.0
made = itertools.count()


class WrongSign(CartPoleEnv):
    """CartPole that takes a point for every step it should pay for."""

    def step(self, action: Any) -> Result:
        obs, reward, terminated, truncated, info = super().step(action)  # type: ignore[no-untyped-call]
        return obs, -float(reward), terminated, truncated, info


class Endless(Walk):
    """A walk that is never over."""

    def step(self, action: Any) -> Result:
        obs, reward, _, _, info = super().step(action)
        return obs, reward, False, False, info


class OneSlow(Walk):
    """A walk of which every fourth that is made takes two milliseconds a step."""

    def __init__(self) -> None:
        super().__init__()
        self.is_slow = next(made) % 4 == 3

    def step(self, action: Any) -> Result:
        until = time.perf_counter() + 0.002 * self.is_slow
        while time.perf_counter() < until:
            pass
        return super().step(action)


def hang_until_noticed(crash: str, stage: str) -> None:
    """Stand still until the watchdog has written down that somebody does."""
    never, until = threading.Event(), time.monotonic() + LONGEST_HANG
    while not any(Path(crash).glob(f"stall-{stage}-*.txt")) and time.monotonic() < until:
        never.wait(0.05)  # where it hangs


HANGS_AT = hang_until_noticed.__code__.co_firstlineno + 4


class Hanging(Walk):
    """A walk that hangs once, in its hundredth step, until the folder it is told of has a dump."""

    def __init__(self, crash: str) -> None:
        super().__init__()
        self.crash = crash
        self.taken = 0

    def step(self, action: Any) -> Result:
        self.taken += 1
        if self.taken == 100:
            hang_until_noticed(self.crash, "collect")
        return super().step(action)


class HangingLearner(PPO):
    """A learner that hangs once, in its third update."""

    crash = ""

    def update(self, rollout: Rollout, settings: Settings) -> Metrics:
        metrics = super().update(rollout, settings)
        if metrics["train/n_updates"] == 3:
            hang_until_noticed(self.crash, "learn")
        return metrics


def register() -> None:
    """Make them known to Gymnasium, once."""
    if "Sick/Endless-v0" in gym.registry:
        return
    for made_by in (WrongSign, Endless, OneSlow, Hanging):
        gym.register(
            f"Sick/{made_by.__name__}-v0",
            f"{__name__}:{made_by.__name__}",
            reward_threshold=475.0 if made_by is WrongSign else None,
            max_episode_steps=500 if made_by is WrongSign else None,
            disable_env_checker=True,
        )


register()
