"""The game for other trainers: a Gymnasium environment, and a vector of them in one batch.

With pixels alone an observation is one array; tiles come with numbers, so they are a dict.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from longhaul.core.env import Array, Bools, StepBuffers
from longhaul.core.spaces import EnvSpec
from longhaul.envs.gymnasium.seeds import VectorSeeds
from longhaul.tasks.mario.game import reward as at
from longhaul.tasks.mario.game.games import PIXELS, GameFactory, Games
from longhaul.tasks.mario.game.options import GameOptions, Observation
from longhaul.tasks.mario.rom import find_rom

FRAMES_PER_SECOND = 60
LARGEST_NUMBER = 300.0
"""Beyond any of the numbers that come with tiles."""
Info = dict[str, Any]


def game_options(stage: str, observation: Observation, options: GameOptions | None) -> GameOptions:
    """Return what to play: these options, or the usual ones on one stage."""
    return options or GameOptions(stages=(stage,), observation=observation)


def observation_space(spec: EnvSpec) -> gym.Space[Any]:
    """Return the space of what one game shows."""
    spaces: dict[str, gym.Space[Any]] = {}
    for name, part in spec.observation.items():
        if part.dtype == "uint8":
            spaces[name] = gym.spaces.Box(0, 255, part.shape, np.uint8)
        else:
            spaces[name] = gym.spaces.Box(-LARGEST_NUMBER, LARGEST_NUMBER, part.shape, np.float32)
    return spaces[PIXELS] if spaces.keys() == {PIXELS} else gym.spaces.Dict(spaces)


class _Batch:
    """Games bound to slots, as both kinds of environment use them."""

    def __init__(self, options: GameOptions, count: int) -> None:
        factory = GameFactory(options, find_rom(options.rom).cartridge)
        self.spec = factory.spec
        self.games: Games = factory(count)
        self.slots = StepBuffers.allocate(self.spec, count)
        self.games.bind(self.slots)
        self.is_plain = self.spec.observation.keys() == {PIXELS}
        self.frame_rate = FRAMES_PER_SECOND / options.frame_skip

    def observation(self) -> Any:
        """Return a copy of what all games show."""
        if self.is_plain:
            return self.slots.obs[PIXELS].copy()
        return {name: part.copy() for name, part in self.slots.obs.items()}

    def one(self) -> Any:
        """Return a copy of what the only game shows."""
        if self.is_plain:
            return self.slots.obs[PIXELS][0].copy()
        return {name: part[0].copy() for name, part in self.slots.obs.items()}

    def begin(self, envs: NDArray[np.int64], seeds: list[int]) -> None:
        """Begin an episode in each of `envs`."""
        self.games.reset(envs, np.array(seeds, np.int64), [None] * len(seeds))


class MarioEnv(gym.Env[Any, np.int64]):
    """One game behind Gymnasium's API."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 - Gymnasium's way

    def __init__(
        self,
        stage: str = "1-1",
        observation: Observation = "pixels",
        options: GameOptions | None = None,
        render_mode: str | None = None,
    ) -> None:
        self._batch = _Batch(game_options(stage, observation, options), 1)
        self.render_mode = render_mode
        self.metadata = {**type(self).metadata, "render_fps": self._batch.frame_rate}
        self.observation_space = observation_space(self._batch.spec)
        self.action_space = gym.spaces.Discrete(len(self._batch.games.actions))

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Begin the episode of `seed`, or one drawn from this environment's own generator."""
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31 - 1)) if seed is None else seed
        self._batch.begin(np.arange(1), [drawn])
        return self._batch.one(), self._info()

    def step(self, action: np.int64) -> tuple[Any, float, bool, bool, Info]:
        """Hold the buttons of `action` for the frames of one decision."""
        games, slots = self._batch.games, self._batch.slots
        games.step(0, 1, np.array([action], np.int64))
        info = self._info()
        if games.over[0]:
            info["reason"] = games.ending(0).reason
        terminated, truncated = bool(slots.terminated[0]), bool(slots.truncated[0])
        return self._batch.one(), float(slots.reward[0]), terminated, truncated, info

    def render(self) -> Any:
        """Return the present picture, 240 x 256 in color."""
        return None if self.render_mode is None else self._batch.games.frame(0)

    def close(self) -> None:
        """Free what the game holds."""
        self._batch.games.close()

    def _info(self) -> Info:
        own = self._batch.games.figures[0]
        return {**asdict(self._batch.games.facts(0)), "progress": int(own[at.PROGRESS])}


class MarioVectorEnv(VectorEnv[Any, Array, Array]):
    """Games behind Gymnasium's vector API; an ended one comes back reset in the same step."""

    metadata = {  # noqa: RUF012 - declared so by Gymnasium
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "render_modes": ["rgb_array"],
        "render_fps": 15,
    }

    def __init__(
        self,
        num_envs: int = 1,
        stage: str = "1-1",
        observation: Observation = "pixels",
        options: GameOptions | None = None,
        render_mode: str | None = None,
    ) -> None:
        self._batch = _Batch(game_options(stage, observation, options), num_envs)
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.metadata = {**type(self).metadata, "render_fps": self._batch.frame_rate}
        self.single_observation_space = observation_space(self._batch.spec)
        self.single_action_space = gym.spaces.Discrete(len(self._batch.games.actions))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._seeds = VectorSeeds(num_envs)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: Info | None = None
    ) -> tuple[Any, Info]:
        """Begin an episode in every game: with `seed`, `seed + 1` and so on, or those listed."""
        self._batch.begin(np.arange(self.num_envs), self._seeds.given(seed))
        return self._batch.observation(), self._info()

    def step(self, actions: Array) -> tuple[Any, Array, Array, Array, Info]:
        """Hold each game's buttons for the frames of one decision."""
        games, slots = self._batch.games, self._batch.slots
        games.step(0, self.num_envs, np.ascontiguousarray(actions, np.int64))
        reward = slots.reward.astype(np.float64)
        terminated, truncated = slots.terminated.copy(), slots.truncated.copy()
        info: Info = {}
        if games.over.any():
            over = games.over.copy()
            info = self._final_info(over)
            ended = np.flatnonzero(over)
            self._batch.begin(ended, self._seeds.drawn(ended.tolist()))
        return self._batch.observation(), reward, terminated, truncated, {**self._info(), **info}

    def render(self) -> tuple[Any, ...] | None:
        """Return the present picture of every game."""
        if self.render_mode is None:
            return None
        return tuple(self._batch.games.frame(env) for env in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        """Free what the games hold."""
        self._batch.games.close()

    def _info(self) -> Info:
        memory, own = self._batch.games.memory, self._batch.games.figures
        info = {
            "x_pos": memory.x,
            "score": memory.score,
            "coins": memory.coins,
            "time": memory.clock,
            "life": memory.lives,
            "world": memory.world,
            "stage": memory.stage,
            "progress": own[:, at.PROGRESS].astype(np.int64),
        }
        everywhere = np.ones(self.num_envs, np.bool_)
        return info | {f"_{name}": everywhere for name in info}

    def _final_info(self, over: Bools) -> Info:
        shown = self._batch.observation()
        final_obs = np.full(self.num_envs, None, dtype=object)
        info: dict[str, Array] = {
            name: np.zeros(self.num_envs) for name in ("progress", "score", "cleared", "x_pos")
        }
        reasons = np.full(self.num_envs, None, dtype=object)
        for env in np.flatnonzero(over).tolist():
            if self._batch.is_plain:
                final_obs[env] = shown[env]
            else:
                final_obs[env] = {name: part[env] for name, part in shown.items()}
            ending = self._batch.games.ending(env)
            reasons[env] = ending.reason
            info["x_pos"][env] = ending.metrics["x"]
            for name in ("progress", "score", "cleared"):
                info[name][env] = ending.metrics[name]
        final = {**info, "reason": reasons}
        return {
            "final_obs": final_obs,
            "_final_obs": over,
            "final_info": final | {f"_{name}": over for name in final},
            "_final_info": over,
        }
