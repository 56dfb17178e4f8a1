"""Episodes of an evaluation played again."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
import torch

from longhaul.app.build.components import build_env, build_policy, build_settings, build_task
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.evaluation.episode_player import Moment, Replay, Scenario
from longhaul.core.env import Episode
from longhaul.core.policy import Policy
from longhaul.core.seeds import Seeds
from longhaul.core.settings import Settings
from longhaul.core.task import Task
from longhaul.engine.evaluator import EpisodeEvaluator

ENVS = 3


def played(
    name: str, *overrides: str
) -> tuple[Task, Policy, Settings, tuple[Episode, ...], list[Scenario]]:
    """Return an evaluation of an untrained policy, and how to play each episode again."""
    config = resolve(ConfigSources(task=name, overrides=(f"evaluate.num_envs={ENVS}", *overrides)))
    task = build_task(config)
    policy = build_policy(config, task, torch.device("cpu"))
    settings = build_settings(config, task)
    evaluator = EpisodeEvaluator(
        lambda seeds, count: build_env(config, task, seeds, count), policy, config.evaluate
    )
    episodes = evaluator.episodes(settings, count=5)
    draws = Seeds(config.evaluate.seed)
    scenarios = [
        Scenario(
            seed=episode.seed,
            company=ENVS,
            place=episode.env,
            draws=None if config.evaluate.greedy else draws.integer("actions", case),
        )
        for case, episode in enumerate(episodes)
    ]
    return task, policy, settings, episodes, scenarios


def moments(task: Task, policy: Policy, settings: Settings, scenario: Scenario) -> list[Moment]:
    with closing(Replay(task.envs, policy, settings, scenario)) as replay:
        return list(replay.moments())


@pytest.mark.parametrize("name", ["gym:CartPole-v1", "probe:chase", "probe:recall"])
@pytest.mark.parametrize("greedy", ["true", "false"])
def test_a_replay_goes_as_the_evaluation_did(name: str, greedy: str) -> None:
    task, policy, settings, episodes, scenarios = played(name, f"evaluate.greedy={greedy}")
    for episode, scenario in zip(episodes, scenarios, strict=True):
        last = moments(task, policy, settings, scenario)[-1]
        assert last.step == episode.length
        assert last.episode_return == episode.episode_return
        assert last.ending is not None
        assert last.ending.reason == episode.reason


def test_moments_begin_before_the_first_step_and_add_up() -> None:
    task, policy, settings, episodes, scenarios = played("probe:chase")
    seen = moments(task, policy, settings, scenarios[0])
    assert [moment.step for moment in seen] == list(range(episodes[0].length + 1))
    assert seen[0].action is None
    assert all(moment.action is not None for moment in seen[1:])
    assert sum(moment.reward for moment in seen) == pytest.approx(seen[-1].episode_return)
    assert sum(seen[-1].terms.values()) == pytest.approx(seen[-1].episode_return, abs=1e-5)
    assert [moment.ending is None for moment in seen] == [True] * episodes[0].length + [False]


def test_the_end_of_an_episode_can_be_seen() -> None:
    task, policy, settings, _, scenarios = played("gym:CartPole-v1")
    with closing(Replay(task.envs, policy, settings, scenarios[0])) as replay:
        pictures = [replay.picture() for _ in replay.moments()]
    first, last = pictures[0], pictures[-1]
    assert first is not None
    assert last is not None
    assert first.shape == (400, 600, 3)
    # A pole that was reset stands upright again, as in the first picture.
    assert np.abs(first.astype(int) - last.astype(int)).sum() > 100_000
