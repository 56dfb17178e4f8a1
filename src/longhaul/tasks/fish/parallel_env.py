"""One school behind PettingZoo's parallel API; needs the extra `marl`."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from pettingzoo import ParallelEnv  # type: ignore[import-untyped,import-not-found,unused-ignore]

from longhaul.core.env import Array, Floats, StepBuffers
from longhaul.tasks.fish.adapters import FRAMES_PER_SECOND, LARGEST_INPUT, Info
from longhaul.tasks.fish.options import FishOptions
from longhaul.tasks.fish.world.school import SchoolFactory
from longhaul.tasks.fish.world.world import ACTIONS


class FishParallelEnv(ParallelEnv[str, Floats, int]):  # type: ignore[misc]
    """Agents leave when they die; the others are truncated together at the time limit."""

    metadata = {  # noqa: RUF012 - declared so by PettingZoo
        "name": "longhaul_fish_v0",
        "render_modes": ["rgb_array"],
        "render_fps": FRAMES_PER_SECOND,
        "is_parallelizable": True,
    }

    def __init__(self, options: FishOptions | None = None, render_mode: str | None = None) -> None:
        self._options = options or FishOptions()
        self.render_mode = render_mode
        self.possible_agents = [f"fish_{row}" for row in range(self._options.fish)]
        self.agents: list[str] = []
        self._row = {agent: row for row, agent in enumerate(self.possible_agents)}
        self._schools = SchoolFactory(self._options)(1)
        self._slots = StepBuffers.allocate(self._schools.spec, self._options.fish)
        self._schools.bind(self._slots)
        self._seeds = np.random.default_rng()

    @functools.cache  # noqa: B019 - the API asks for the same object every time
    def observation_space(self, agent: str) -> gym.spaces.Box:
        """Return the space of what one fish sees."""
        shape = self._schools.spec.observation["obs"].shape
        return gym.spaces.Box(-LARGEST_INPUT, LARGEST_INPUT, shape, np.float32)

    @functools.cache  # noqa: B019 - the API asks for the same object every time
    def action_space(self, agent: str) -> gym.spaces.Discrete:
        """Return the space of what one fish does."""
        return gym.spaces.Discrete(ACTIONS)

    def reset(
        self, seed: int | None = None, options: Info | None = None
    ) -> tuple[dict[str, Floats], dict[str, Info]]:
        """Begin the episode of `seed`, or the next of the last seed's series."""
        if seed is not None:
            self._seeds = np.random.default_rng(seed)
        drawn = int(self._seeds.integers(2**31 - 1)) if seed is None else seed
        self._schools.reset(np.arange(1), np.array([drawn], np.int64), [None])
        self.agents = self._present()
        return self._seen(self.agents), {agent: {} for agent in self.agents}

    def step(
        self, actions: dict[str, int]
    ) -> tuple[
        dict[str, Floats], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Info]
    ]:
        """Act with the fish that are there."""
        # A fish without an action stays where it is.
        chosen = np.full(self._options.fish, -1, np.int64)
        for agent, action in actions.items():
            chosen[self._row[agent]] = action
        self._schools.step(0, 1, chosen)
        acted = self.agents
        self.agents = [] if self._schools.over[0] else self._present()
        return (
            self._seen(acted),
            self._column(acted, self._slots.reward),
            self._column(acted, self._slots.terminated),
            self._column(acted, self._slots.truncated),
            {agent: {} for agent in acted},
        )

    def render(self) -> NDArray[np.uint8] | None:
        """Return the present picture."""
        return None if self.render_mode is None else self._schools.frame(0)

    def state(self) -> Floats:
        """Return what all fish see, in order; zeros for those that are not there."""
        return self._slots.obs["obs"].ravel().copy()

    def close(self) -> None:
        """Free what the school holds."""
        self._schools.close()

    def _present(self) -> list[str]:
        rows = np.flatnonzero(self._slots.active).tolist()
        return [self.possible_agents[row] for row in rows]

    def _seen(self, agents: list[str]) -> dict[str, Floats]:
        obs = self._slots.obs["obs"]
        return {agent: obs[self._row[agent]].copy() for agent in agents}

    def _column(self, agents: list[str], column: Array) -> dict[str, Any]:
        return {agent: column[self._row[agent]].item() for agent in agents}
