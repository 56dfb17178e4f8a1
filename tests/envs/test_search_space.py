from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from longhaul.core.env import SingleEnvs
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import Seeds
from longhaul.engine.explorer import Explorer
from longhaul.envs.gymnasium.env import GymnasiumFactory, gymnasium_envs
from longhaul.envs.search_space import EnvSpace
from longhaul.tasks.probe.chase import chase_envs
from longhaul.tasks.probe.lock import LockFactory

HALL, DOOR = 9, 3


class Hall(gym.Env[Any, Any]):
    """A long hall: three steps aside at its end lead out; everywhere else they lead to a wall."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(0, HALL, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(3)
        self.place = [0, 0]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = [0, 0]
        return np.array(self.place, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        x, y = self.place
        if action < 2 and y == 0:
            self.place[0] = min(max(x + (1 if action else -1), 0), HALL)
        elif action == 2:
            self.place[1] = y + 1
        out = self.place == [HALL, DOOR]
        over = out or (self.place[1] > 0 and x != HALL)
        return np.array(self.place, np.float32), float(out), over, False, {}

    def snapshot(self) -> list[int]:
        return list(self.place)

    def restore(self, state: list[int]) -> None:
        self.place = list(state)


def test_a_gymnasium_env_with_snapshots_is_searched_as_it_is() -> None:
    space = EnvSpace(gymnasium_envs(GymnasiumFactory(f"{__name__}:Hall")), 4, goal=1.0)
    explorer = Explorer(space, Seeds(0).generator("explore"))
    explorer.begin()
    while explorer.solution is None:
        explorer.advance()
    env = Hall()
    env.reset()
    paid = [env.step(choice)[1] for choice in explorer.solution]
    assert paid[-1] == 1.0
    # Cells are the places of the hall: what a wall ends is no cell.
    assert len(explorer.archive) <= HALL + 1 + DOOR


def test_a_saved_state_is_restored_in_another_simulator() -> None:
    lock = LockFactory(positions=6)
    space = EnvSpace(SingleEnvs(lock.spec, lock), 2)
    space.begin()
    space.step(np.array([lock.key[0], lock.key[0]]))
    space.load(1, space.save(0))
    assert space.digest(0) == space.digest(1)
    sight = space.step(np.array([lock.key[1]] * 2))
    assert sight.cells[0] == sight.cells[1]
    assert sight.cost.tolist() == [2.0, 2.0]


def test_envs_without_single_snapshots_are_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be searched"):
        EnvSpace(chase_envs(), 2)
    with pytest.raises(ConfigError, match="cannot be searched"):
        EnvSpace(gymnasium_envs(GymnasiumFactory("CartPole-v1")), 2)
