"""PettingZoo: agents are rows, those that leave are inactive, and what cannot be is refused."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from pettingzoo import ParallelEnv  # type: ignore[import-untyped,import-not-found,unused-ignore]

from longhaul.core.env import SingleEnvs, VectorEnv
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.envs.build import make_vector_env
from tests.contracts.task_contract import build

TASK = f"pettingzoo:{__name__}"


class Candles(ParallelEnv[str, Any, int]):  # type: ignore[misc]
    """Each agent sees what is left of its candle, drawn at the reset; without one it leaves."""

    metadata = {"name": "candles", "render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, longest: int = 5, *, alike: bool = True, render_mode: str | None = None):
        self.possible_agents = ["a", "b", "c"]
        self.longest, self.alike, self.render_mode = longest, alike, render_mode

    def observation_space(self, agent: str) -> gym.spaces.Box:
        return gym.spaces.Box(0, 9, (1 if self.alike else ord(agent),), np.float32)

    def action_space(self, agent: str) -> gym.spaces.Discrete:
        return gym.spaces.Discrete(2)

    def look(self) -> dict[str, Any]:
        return {agent: np.array([self.left[agent]], np.float32) for agent in self.agents}

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        drawn = np.random.default_rng(seed).integers(1, self.longest, len(self.possible_agents))
        self.left = dict(zip(self.possible_agents, drawn.tolist(), strict=True))
        self.agents, self.steps = list(self.possible_agents), 0
        return self.look(), {}

    def step(self, actions: dict[str, int]) -> Any:
        assert list(actions) == self.agents, "who is not there cannot act"
        self.steps += 1
        for agent in self.agents:
            self.left[agent] -= 1
        seen, acted = self.look(), self.agents
        out = {agent: self.left[agent] == 0 for agent in acted}
        late = {agent: self.steps == 3 and not out[agent] for agent in acted}
        self.agents = [agent for agent in acted if not out[agent] and not late[agent]]
        return seen, {agent: float(actions[agent]) for agent in acted}, out, late, {}

    def render(self) -> Any:
        return np.zeros((4, 4, 3), np.uint8) if self.render_mode else None


parallel_env = Candles


def make(*overrides: str, count: int = 1) -> VectorEnv:
    envs = build(TASK, *overrides).task.envs
    assert isinstance(envs, SingleEnvs)
    return make_vector_env(envs, count=count, seeds=DerivedSeeds(Seeds(4)))


def test_every_agent_is_a_row_and_leaves_when_it_is_out() -> None:
    vector = make()
    vector.reset()
    slots, games = vector.slots, 0
    assert vector.spec.rows == 3
    while games < 20:
        left, present = slots.obs["obs"][:, 0].copy(), slots.active.copy()
        assert (left[present] > 0).all()
        step = vector.step(np.array([1, 0, 1]))
        assert (slots.reward == np.where(present, [1, 0, 1], 0)).all()
        assert (slots.terminated == (present & (left == 1))).all()
        if step.episodes:
            games += 1
            reason = "time_limit" if (present & (left > 1)).any() else "terminated"
            assert step.episodes[0].reason == reason
            assert slots.active.all()
        else:
            assert (slots.active == (present & (left > 1))).all()
    vector.close()


def test_a_restored_episode_goes_on_with_the_agents_that_were_left() -> None:
    one, other = make(count=4), make(count=4)
    one.reset()
    for _ in range(6):
        one.step(np.zeros(12, np.int64))
    other.reset()
    other.load_state_dict(one.state_dict())
    for _ in range(20):
        one.step(np.ones(12, np.int64))
        other.step(np.ones(12, np.int64))
        assert (one.slots.active == other.slots.active).all()
        assert (one.slots.obs["obs"] == other.slots.obs["obs"]).all()


def test_a_module_of_pettingzoo_needs_no_package_in_front() -> None:
    by_id, by_module = (
        build(f"pettingzoo:{name}") for name in ("sisl/multiwalker-v9", "multiwalker_v9")
    )
    assert by_id.task.envs.spec.observation == by_module.task.envs.spec.observation
    assert by_id.task.envs.spec.rows == 3


def test_pictures_are_drawn_where_they_are_asked_for() -> None:
    envs = build(TASK).task.envs
    assert isinstance(envs, SingleEnvs)
    assert envs.make_drawn is not None
    for maker, drawn in ((envs.make, False), (envs.make_drawn, True)):
        env = maker()
        env.reset(1, None)
        assert (env.frame() is not None) == drawn
        env.close()


def test_without_pettingzoo_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    with pytest.raises(ConfigError, match=r"pip install 'longhaul-rl\[marl\]'$"):
        build("pettingzoo:sisl/multiwalker-v9")


@pytest.mark.parametrize(
    ("task", "overrides", "said"),
    [
        ("pettingzoo", (), "needs an environment: an id"),
        ("pettingzoo:no_such_game_v1", (), "'no_such_game_v1' cannot be imported: No module"),
        ("pettingzoo:sisl/multiwalkr-v9", (), "'sisl/multiwalkr-v9' cannot be made"),
        ("pettingzoo:longhaul.tasks.kind", (), "'longhaul.tasks.kind' has no parallel_env"),
        (TASK, ("options.kwargs.candles=3",), "cannot be made with {'candles': 3}"),
        (TASK, ("options.kwargs.alike=false",), "agents share one policy, but 'a' has"),
        (TASK, ("options.wrappers=['gone:Wrapper']",), "'gone' cannot be imported"),
    ],
)
def test_what_cannot_be_is_refused(task: str, overrides: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        build(task, *overrides)
