"""Rollouts of environments that do not wait for each other, against the same ones in lockstep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from longhaul.core.env import Array, Arrivals, Finals, Step, StepBuffers
from longhaul.core.errors import ConfigError
from longhaul.core.policy import Act, Generators
from longhaul.core.rollout import Memory, Rollout, TensorTree
from longhaul.core.seeds import Seeds
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.engine.async_collector import FirstComeCollector
from longhaul.engine.collector import RolloutCollector
from longhaul.envs.config import EnvConfig
from longhaul.envs.serial import SerialVectorEnv
from longhaul.learn.returns import Advantages, Trajectory, gae
from tests.engine.comparing import assert_equal
from tests.engine.diary import ROWS, SEEDS, SETTINGS, DiaryFactory, DiaryPolicy, diaries

COUNT = 3
STEPS = 12
CHUNK = 4


@dataclass(frozen=True)
class SeedsOf:
    """The seeds of one env among several."""

    env: int

    def seed(self, env: int, episode: int) -> int:
        return SEEDS.seed(self.env, episode)


class Uneven:
    """Diaries that answer an action after as many looks as `pause(env, step)` says."""

    def __init__(self, pause: Callable[[int, int], int]) -> None:
        self._pause = pause
        self._envs = [
            SerialVectorEnv(DiaryFactory().source(), 1, SeedsOf(env)) for env in range(COUNT)
        ]
        self.spec = self._envs[0].spec
        self.count, self.rows = COUNT, COUNT * ROWS
        self.slots = StepBuffers.allocate(self.spec, self.rows)
        self.taken = [0] * COUNT
        self._under_way: dict[int, tuple[int, Array]] = {}  # looks left, actions
        self.starts_used = 0
        self.least = 1.0

    def configure(self, settings: Settings) -> None:
        for env in self._envs:
            env.configure(settings)

    def reset(self) -> None:
        for env, diary in enumerate(self._envs):
            diary.reset()
            self._copy(env)

    def _copy(self, env: int) -> None:
        ours, theirs = self.slots.view(env * ROWS, (env + 1) * ROWS), self._envs[env].slots
        pairs: list[tuple[Array, Array]] = [
            (ours.reward, theirs.reward),
            (ours.terminated, theirs.terminated),
            (ours.truncated, theirs.truncated),
            (ours.started, theirs.started),
            (ours.active, theirs.active),
            (ours.forced, theirs.forced),
        ]
        assert ours.mask is not None
        assert theirs.mask is not None
        pairs += [(ours.mask, theirs.mask)]
        pairs += [(part, theirs.obs[name]) for name, part in ours.obs.items()]
        pairs += [(term, theirs.terms[name]) for name, term in ours.terms.items()]
        pairs += [(part, theirs.measures[name]) for name, part in ours.measures.items()]
        for one, other in pairs:
            one[...] = other

    def send(self, rows: NDArray[np.int64], actions: Array) -> None:
        for env in (rows[::ROWS] // ROWS).tolist():
            assert env not in self._under_way
            own = actions[rows // ROWS == env]
            self._under_way[env] = (self._pause(env, self.taken[env]), own)

    def gather(self, share: float) -> Arrivals:
        arrived: list[int] = []
        finals: list[tuple[int, Finals]] = []
        episodes: list[Any] = []
        while self._under_way and len(arrived) < share * COUNT:
            for env, (looks, actions) in sorted(self._under_way.items()):
                if looks:
                    self._under_way[env] = (looks - 1, actions)
                    continue
                del self._under_way[env]
                arrived.append(env)
                step = self._envs[env].step(actions)
                self.taken[env] += 1
                self._copy(env)
                episodes += [replace(episode, env=env) for episode in step.episodes]
                if step.finals is not None:
                    finals.append((env, step.finals))
        arrived.sort()
        rows = np.array([env * ROWS + row for env in arrived for row in range(ROWS)], np.int64)
        episodes.sort(key=lambda episode: episode.env)
        last = _joined(sorted(finals, key=lambda one: one[0]))
        return Arrivals(rows, Step(self.slots, last, tuple(episodes)))

    def step(self, actions: Array) -> Step:
        raise NotImplementedError

    def frame(self, env: int) -> None:
        return None

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


def _joined(finals: list[tuple[int, Finals]]) -> Finals | None:
    if not finals:
        return None
    return Finals(
        np.concatenate([f.rows + env * ROWS for env, f in finals]),
        {name: np.concatenate([f.obs[name] for _, f in finals]) for name in finals[0][1].obs},
    )


class Settled(DiaryPolicy):
    """Acts by what it sees alone, so that it does the same in whatever company."""

    def act(
        self,
        obs: TensorTree,
        memory: Memory,
        settings: Settings,
        *,
        mask: Tensor | None = None,
        generator: Generators | None = None,
    ) -> Act:
        return super().act(obs, memory, settings, mask=mask)


def first_come(
    pause: Callable[[int, int], int], policy: DiaryPolicy, share: float
) -> FirstComeCollector:
    return FirstComeCollector(
        Uneven(pause), policy, Seeds(1), steps=STEPS, chunk=CHUNK, share=share
    )


def test_rollouts_of_envs_that_answer_together_are_those_of_lockstep() -> None:
    lockstep = RolloutCollector(diaries(COUNT), DiaryPolicy(), Seeds(1), steps=STEPS, chunk=CHUNK)
    own_pace = first_come(lambda env, step: 0, DiaryPolicy(), 1.0)
    for _ in range(3):
        assert_equal(own_pace.collect(SETTINGS), lockstep.collect(SETTINGS))


def advantages(rollout: Rollout) -> Advantages:
    trajectory = Trajectory.of(rollout, rollout.reward)
    return gae(trajectory, rollout.value, gamma=0.9, gae_lambda=0.8)


def recorded(rollout: Rollout) -> dict[str, Tensor]:
    return {
        **rollout.obs,
        "action": rollout.action,
        "log_prob": rollout.log_prob,
        "value": rollout.value,
        "reward": rollout.reward,
        "terminated": rollout.terminated,
        "truncated": rollout.truncated,
        "started": rollout.started,
        "active": rollout.active,
        "forced": rollout.forced,
    }


@settings(max_examples=20)
@given(
    pauses=st.lists(st.integers(0, 4), min_size=5, max_size=20),
    share=st.sampled_from([0.1, 0.5, 0.7, 1.0]),
)
def test_each_row_learns_as_if_its_env_had_been_alone(pauses: list[int], share: float) -> None:
    policy = Settled()
    collector = first_come(lambda env, step: pauses[(5 * env + step) % len(pauses)], policy, share)
    envs = collector.env
    assert isinstance(envs, Uneven)
    states: list[State] = []
    for _ in range(2):
        states, before_this = [], states
        before = list(envs.taken)
        rollout = collector.collect(SETTINGS)
        learned = advantages(rollout)
        assert rollout.env_steps == int(rollout.active.sum())
        for env in range(COUNT):
            taken = envs.taken[env] - before[env]
            rows = slice(env * ROWS, (env + 1) * ROWS)
            assert taken <= STEPS
            assert not rollout.active[taken:, rows].any()
            diary = SerialVectorEnv(DiaryFactory().source(), 1, SeedsOf(env))
            alone = RolloutCollector(diary, policy, Seeds(1), steps=taken, chunk=0)
            if before_this:
                alone.load_state_dict(before_this[env])
            expected = alone.collect(SETTINGS)
            states.append(alone.state_dict())
            for name, tensor in recorded(expected).items():
                assert torch.equal(recorded(rollout)[name][:taken, rows], tensor), name
            for begin in range(0, taken, CHUNK):
                kept = rollout.memory["age"][begin // CHUNK, rows]
                own = ~expected.forced[begin]
                assert torch.equal(kept[own], expected.log_prob[begin, own].neg())
            assert torch.equal(rollout.last.value[rows], expected.last.value)
            wanted = advantages(expected)
            torch.testing.assert_close(learned.advantage[:taken, rows], wanted.advantage)
            torch.testing.assert_close(learned.target[:taken, rows], wanted.target)


def test_a_rollout_ends_with_the_fastest_row_and_leaves_nothing_under_way() -> None:
    collector = first_come(lambda env, step: 3 * env, Settled(), 0.3)
    envs = collector.env
    assert isinstance(envs, Uneven)
    rollout = collector.collect(SETTINGS)
    assert envs.taken[0] == STEPS
    assert envs.taken[0] > envs.taken[1] > envs.taken[2] > 0
    assert rollout.steps == STEPS
    assert rollout.trainable[:, :ROWS].sum() > rollout.trainable[:, 2 * ROWS :].sum()
    cuts = rollout.truncations
    places = list(zip(cuts.step.tolist(), cuts.row.tolist(), strict=True))
    assert places == sorted(places)


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_an_impossible_share_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="first_come_share"):
        EnvConfig(first_come_share=share)
