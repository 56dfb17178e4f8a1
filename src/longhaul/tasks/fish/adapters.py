"""Schools for other trainers: a Gymnasium environment, and a vector of them in one batch.

A sub-environment is a school. Its action is one choice per fish and its reward the mean over the
fish; which of them are alive is in the info's `active`.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from longhaul.core.env import Array, Bools, Floats, StepBuffers
from longhaul.envs.gymnasium.seeds import VectorSeeds
from longhaul.tasks.fish.options import FishOptions
from longhaul.tasks.fish.world.school import SchoolFactory
from longhaul.tasks.fish.world.world import ACTIONS

LARGEST_INPUT = 10.0
"""Larger than any input: the highest speed of a predator relative to a fish is shown as 4."""
FRAMES_PER_SECOND = 20
Info = dict[str, Any]


def observation_space(options: FishOptions) -> gym.spaces.Box:
    """Return the space of what all fish of one school see."""
    spec = SchoolFactory(options).spec
    shape = (spec.rows, *spec.observation["obs"].shape)
    return gym.spaces.Box(-LARGEST_INPUT, LARGEST_INPUT, shape, np.float32)


def action_space(options: FishOptions) -> gym.spaces.MultiDiscrete:
    """Return the space of what all fish of one school do."""
    return gym.spaces.MultiDiscrete([ACTIONS] * options.fish)


class FishVectorEnv(VectorEnv[Floats, Array, Array]):
    """Schools behind Gymnasium's vector API; an ended one comes back reset in the same step."""

    metadata = {  # noqa: RUF012 - declared so by Gymnasium
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "render_modes": ["rgb_array"],
        "render_fps": FRAMES_PER_SECOND,
    }

    def __init__(
        self, num_envs: int = 1, options: FishOptions | None = None, render_mode: str | None = None
    ) -> None:
        options = options or FishOptions()
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.single_observation_space = observation_space(options)
        self.single_action_space = action_space(options)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._schools = SchoolFactory(options)(num_envs)
        self._slots = StepBuffers.allocate(self._schools.spec, num_envs * options.fish)
        self._schools.bind(self._slots)
        self._seeds = VectorSeeds(num_envs)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: Info | None = None
    ) -> tuple[Floats, Info]:
        """Begin an episode in every school: with `seed`, `seed + 1` and so on, or those listed."""
        self._begin(np.arange(self.num_envs), self._seeds.given(seed))
        return self._observation(), {"active": self._active()}

    def step(self, actions: Array) -> tuple[Floats, Array, Array, Array, Info]:
        """Act with all fish of all schools."""
        schools = self._schools
        schools.step(0, self.num_envs, np.ascontiguousarray(actions, np.int64).ravel())
        over = schools.over.copy()
        truncated = np.asarray(self._by_school(self._slots.truncated).any(axis=1))
        reward: Array = self._by_school(self._slots.reward).sum(axis=1, dtype=np.float64)
        reward /= schools.world.size
        info: Info = {}
        if over.any():
            info = self._final_info(over)
            ended = np.flatnonzero(over)
            self._begin(ended, self._seeds.drawn(ended.tolist()))
        info["active"] = self._active()
        return self._observation(), reward, over & ~truncated, truncated, info

    def render(self) -> tuple[Any, ...] | None:
        """Return the present picture of every school."""
        if self.render_mode is None:
            return None
        frames = (self._schools.frame(env) for env in range(self.num_envs))
        return tuple(frame for frame in frames if frame is not None)

    def close_extras(self, **kwargs: Any) -> None:
        """Free what the schools hold."""
        self._schools.close()

    def _begin(self, envs: NDArray[np.int64], seeds: list[int]) -> None:
        self._schools.reset(envs, np.array(seeds, np.int64), [None] * len(seeds))

    def _final_info(self, over: Bools) -> Info:
        final_obs = np.full(self.num_envs, None, dtype=object)
        survival = np.zeros(self.num_envs)
        observation = self._observation()
        for env in np.flatnonzero(over).tolist():
            final_obs[env] = observation[env]
            survival[env] = self._schools.ending(env).metrics["survival_rate"]
        return {
            "final_obs": final_obs,
            "_final_obs": over,
            "final_info": {"survival_rate": survival, "_survival_rate": over},
            "_final_info": over,
        }

    def _by_school(self, rows: Array) -> Array:
        return rows.reshape(self.num_envs, -1, *rows.shape[1:])

    def _observation(self) -> Floats:
        return self._by_school(self._slots.obs["obs"]).copy()

    def _active(self) -> Bools:
        return self._by_school(self._slots.active).copy()


class FishEnv(gym.Env[Floats, Array]):
    """One school behind Gymnasium's API."""

    metadata = {  # noqa: RUF012 - declared so by Gymnasium
        "render_modes": ["rgb_array"],
        "render_fps": FRAMES_PER_SECOND,
    }

    def __init__(self, options: FishOptions | None = None, render_mode: str | None = None) -> None:
        options = options or FishOptions()
        self.render_mode = render_mode
        self.observation_space = observation_space(options)
        self.action_space = action_space(options)
        self._schools = SchoolFactory(options)(1)
        self._slots = StepBuffers.allocate(self._schools.spec, options.fish)
        self._schools.bind(self._slots)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Floats, Info]:
        """Begin the episode of `seed`, or one drawn from this environment's own generator."""
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31 - 1)) if seed is None else seed
        self._schools.reset(np.arange(1), np.array([drawn], np.int64), [None])
        return self._slots.obs["obs"].copy(), {"active": self._slots.active.copy()}

    def step(self, action: Array) -> tuple[Floats, float, bool, bool, Info]:
        """Act with all fish."""
        self._schools.step(0, 1, np.ascontiguousarray(action, np.int64))
        over, truncated = bool(self._schools.over[0]), bool(self._slots.truncated.any())
        reward = float(self._slots.reward.sum(dtype=np.float64) / self._schools.world.size[0])
        info: Info = {"active": self._slots.active.copy()}
        if over:
            info["survival_rate"] = self._schools.ending(0).metrics["survival_rate"]
        return self._slots.obs["obs"].copy(), reward, over and not truncated, truncated, info

    def render(self) -> Any:
        """Return the present picture."""
        return None if self.render_mode is None else self._schools.frame(0)

    def close(self) -> None:
        """Free what the school holds."""
        self._schools.close()
