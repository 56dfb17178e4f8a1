"""What collectors and evaluators make of steps and episodes that an env failed to finish."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from longhaul.core.control import Progress
from longhaul.core.env import Array, EnvEvent, Episode, Step
from longhaul.core.errors import EnvError
from longhaul.core.seeds import EpisodeSeeds, Seeds
from longhaul.engine.collector import RolloutCollector
from longhaul.engine.config import EvaluateConfig
from longhaul.engine.evaluator import EpisodeEvaluator
from longhaul.engine.summary import LOST_STEPS, Summary
from longhaul.envs.serial import SerialVectorEnv
from tests.engine.diary import ROWS, SEEDS, SETTINGS, DiaryFactory, DiaryPolicy

STEPS = 12


class Failing(SerialVectorEnv):
    """Loses the steps and the episodes it is told to lose."""

    def __init__(
        self,
        count: int,
        seeds: EpisodeSeeds = SEEDS,
        *,
        lost: dict[int, int] | None = None,
        events: dict[int, EnvEvent] | None = None,
    ) -> None:
        super().__init__(DiaryFactory().source(), count, seeds)
        self._lost = lost or {}  # env by step
        self._told = events or {}
        self._given_up: list[EnvEvent] = []
        self._now = 0

    def step(self, actions: Array) -> Step:
        step = super().step(actions)
        slots = step.slots
        slots.lost[:] = False
        env = self._lost.get(self._now)
        event = self._told.get(self._now)
        self._now += 1
        if env is not None:
            rows = slice(env * ROWS, (env + 1) * ROWS)
            slots.lost[rows] = True
            for flags in (slots.terminated, slots.truncated, slots.forced):
                flags[rows] = False
            slots.reward[rows] = 0.0
            self._begin_next([env])
        if event is not None:
            self._given_up.append(event)
        episodes = tuple(episode for episode in step.episodes if not self._is_given_up(episode))
        return replace(step, episodes=episodes, events=() if event is None else (event,))

    def _is_given_up(self, episode: Episode) -> bool:
        return any(
            episode.env == event.env and (event.ends_env or episode.number == event.number)
            for event in self._given_up
        )


def collector(env: Failing) -> RolloutCollector:
    return RolloutCollector(env, DiaryPolicy(), Seeds(1), steps=STEPS, chunk=0)


def test_a_lost_step_is_kept_but_neither_counted_nor_learned_from() -> None:
    event = EnvEvent("episode_lost", 1, 0, {"seed": 4}, ends_episode=True)
    rollout = collector(Failing(3, lost={1: 1}, events={1: event})).collect(SETTINGS)
    expected = torch.zeros(STEPS, 3 * ROWS, dtype=torch.bool)
    expected[1, ROWS : 2 * ROWS] = True
    assert torch.equal(rollout.lost, expected)
    assert not rollout.trainable[rollout.lost].any()
    assert rollout.env_steps == int((rollout.active & ~expected).sum())
    assert rollout.started[2, ROWS : 2 * ROWS].all()
    assert rollout.events == (event,)
    row = event.as_row()
    assert row == {"event": "episode_lost", "env": 1, "episode": 0, "seed": 4}


def test_a_row_that_was_away_at_a_loss_loses_the_step_after_which_it_went() -> None:
    env = Failing(1, lost={4: 0})
    made = collector(env)
    tape_active = torch.ones(STEPS, ROWS, dtype=torch.bool)
    tape_active[3:5, 1] = False
    original = env.step

    def step(actions: Array) -> Step:
        number = env._now
        step = original(actions)
        step.slots.terminated[:] = step.slots.truncated[:] = False
        step.slots.active[:] = tape_active[min(number + 1, STEPS - 1)].numpy()
        return step

    env.step = step  # type: ignore[method-assign]  # rows that come and go, which diaries never do
    rollout = made.collect(SETTINGS)
    assert torch.equal(rollout.active, tape_active)
    assert rollout.lost[:, 0].nonzero().flatten().tolist() == [4]
    assert rollout.lost[:, 1].nonzero().flatten().tolist() == [2, 3, 4]


def test_lost_steps_are_a_metric_only_when_there_are_some() -> None:
    summary = Summary(lambda episodes: {})
    whole = collector(Failing(2)).collect(SETTINGS)
    assert LOST_STEPS not in summary.of(whole, Progress())
    broken = collector(Failing(2, lost={1: 1})).collect(SETTINGS)
    assert summary.of(broken, Progress())[LOST_STEPS] == float((broken.lost & broken.active).sum())


def evaluated(events: dict[int, EnvEvent], *, greedy: bool) -> list[int]:
    """Return the cases, in order of the list, that an evaluation came to an end with."""
    config = EvaluateConfig(episodes=6, num_envs=2, greedy=greedy)
    evaluator = EpisodeEvaluator(
        lambda seeds, count: Failing(count, seeds, events=events), DiaryPolicy(), config
    )
    return [e.env + 2 * e.number for e in evaluator.episodes(SETTINGS, count=6)]


@pytest.mark.parametrize("greedy", [True, False], ids=["greedy", "sampled"])
def test_an_episode_that_was_given_up_is_left_out_of_the_evaluation(*, greedy: bool) -> None:
    lost = EnvEvent("episode_lost", 1, 0, ends_episode=True)
    assert evaluated({0: lost}, greedy=greedy) == [0, 2, 3, 4, 5]


def test_the_cases_of_an_env_that_is_no_more_are_not_waited_for() -> None:
    gone = EnvEvent("env_retired", 1, 0, ends_episode=True, ends_env=True)
    assert evaluated({0: gone}, greedy=True) == [0, 2, 4]


def test_an_evaluation_without_a_single_episode_is_an_error() -> None:
    gone = {
        step: EnvEvent("env_retired", step, 0, ends_episode=True, ends_env=True) for step in (0, 1)
    }
    with pytest.raises(EnvError, match="failed in all 6 episodes"):
        evaluated(gone, greedy=True)
