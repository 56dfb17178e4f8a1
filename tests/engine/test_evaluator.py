"""Evaluations: fixed cases, the same whoever plays them beside whom."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from longhaul.core.control import Progress
from longhaul.core.env import EnvSource, Episode, VectorEnv
from longhaul.core.policy import NO_NOISE, Act, Generators
from longhaul.core.rollout import Memory, TensorTree
from longhaul.core.seeds import EpisodeSeeds, ListedSeeds, Seeds
from longhaul.core.settings import Settings
from longhaul.engine.config import EvaluateConfig
from longhaul.engine.evaluator import EpisodeEvaluator, figures
from longhaul.envs.build import make_vector_env
from longhaul.envs.gymnasium.env import GymnasiumFactory, gymnasium_envs
from longhaul.envs.starts import STARTS, STARTS_USED
from longhaul.nets.actor_critic import ActorCritic, build_policy
from longhaul.nets.config import CoreKind, PolicyConfig
from longhaul.tasks.probe.chase import chase_envs
from tests.engine.diary import SETTINGS, TILT, DiaryPolicy, diaries, length_of

CONFIG = EvaluateConfig(episodes=14)


class Arena:
    """Makes diaries for an evaluator and remembers them."""

    def __init__(self) -> None:
        self.closed = 0
        self.counts: list[int] = []

    def __call__(self, seeds: EpisodeSeeds, count: int) -> VectorEnv:
        env = diaries(count, seeds=seeds)
        close = env.close

        def closing() -> None:
            self.closed += 1
            close()

        env.close = closing  # type: ignore[method-assign]  # a spy
        self.counts.append(count)
        return env


def evaluator(
    *, num_envs: int = 4, greedy: bool = True, seed: int = 7, policy: DiaryPolicy | None = None
) -> EpisodeEvaluator:
    config = EvaluateConfig(episodes=14, num_envs=num_envs, greedy=greedy, seed=seed)
    return EpisodeEvaluator(Arena(), policy or DiaryPolicy(), config)


def without_place(episodes: tuple[Episode, ...]) -> list[tuple[int, int, float]]:
    """Return what must not depend on which env played a case."""
    return [(e.seed, e.length, e.episode_return) for e in episodes]


def test_every_listed_case_is_played_once_and_in_order() -> None:
    episodes = evaluator().episodes(SETTINGS, count=14)
    expected = [Seeds(7).integer("case", number) for number in range(14)]
    assert [episode.seed for episode in episodes] == expected


@pytest.mark.parametrize("num_envs", [1, 2, 3, 5, 14, 40])
def test_short_episodes_are_not_favored(num_envs: int) -> None:
    """A diary's length depends on its seed alone, so the right mean is known."""
    seeds = [Seeds(7).integer("case", number) for number in range(14)]
    lengths = [length_of(seed) for seed in seeds]
    metrics = evaluator(num_envs=num_envs).measure(Progress(), SETTINGS)
    assert metrics["eval/mean_ep_length"] == pytest.approx(sum(lengths) / 14)
    assert metrics["eval/episodes"] == 14
    assert max(lengths) > 2 * min(lengths), "the lengths are too alike to tell"


@pytest.mark.parametrize("greedy", [True, False], ids=["greedy", "sampled"])
@pytest.mark.parametrize("num_envs", [1, 3, 14, 99])
def test_the_number_of_envs_does_not_change_the_result(num_envs: int, *, greedy: bool) -> None:
    one = evaluator(num_envs=num_envs, greedy=greedy).episodes(SETTINGS, count=14)
    other = evaluator(num_envs=5, greedy=greedy).episodes(SETTINGS, count=14)
    assert without_place(one) == without_place(other)


def network(source: EnvSource, core: CoreKind = "none") -> ActorCritic:
    with torch.random.fork_rng():
        torch.manual_seed(2)
        policy = build_policy(
            source.spec, PolicyConfig(hidden=(16,), core=core, core_size=16, core_heads=2)
        )
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return policy


@pytest.mark.parametrize("greedy", [True, False], ids=["greedy", "sampled"])
@pytest.mark.parametrize("core", ["none", "gru", "transformer"])
def test_a_networks_result_does_not_depend_on_its_neighbors(
    core: CoreKind, *, greedy: bool
) -> None:
    source = chase_envs(rows=2, time_limit=9, has_masks=True)
    policy = network(source, core)
    found = []
    for num_envs in (1, 3, 10):
        config = EvaluateConfig(episodes=10, num_envs=num_envs, greedy=greedy)
        measured = EpisodeEvaluator(
            lambda seeds, count: make_vector_env(source, count=count, seeds=seeds), policy, config
        )
        found.append(without_place(measured.episodes(Settings([]), count=10)))
    assert found[0] == found[1] == found[2]


def test_continuous_results_differ_by_rounding_only() -> None:
    source = gymnasium_envs(GymnasiumFactory("Pendulum-v1", {"max_episode_steps": 20}))
    policy = network(source)
    found = []
    for num_envs in (1, 4):
        config = EvaluateConfig(episodes=4, num_envs=num_envs)
        measured = EpisodeEvaluator(
            lambda seeds, count: make_vector_env(source, count=count, seeds=seeds), policy, config
        )
        found.append([e.episode_return for e in measured.episodes(Settings([]), count=4)])
    assert found[0] == pytest.approx(found[1], rel=1e-4)


@pytest.mark.parametrize("greedy", [True, False], ids=["greedy", "sampled"])
def test_measuring_again_gives_the_same_digits(*, greedy: bool) -> None:
    measured = evaluator(greedy=greedy)
    first = measured.measure(Progress(1), SETTINGS)
    assert measured.measure(Progress(9), SETTINGS) == first
    assert evaluator(greedy=greedy).measure(Progress(), SETTINGS) == first


def test_sampling_and_the_most_likely_action_differ() -> None:
    greedy = evaluator(greedy=True).measure(Progress(), SETTINGS)
    sampled = evaluator(greedy=False).measure(Progress(), SETTINGS)
    assert greedy["eval/mean_reward"] != sampled["eval/mean_reward"]


def test_another_evaluation_seed_means_other_cases() -> None:
    cases = [evaluator(seed=seed).episodes(SETTINGS, count=3) for seed in (1, 2)]
    assert not {e.seed for e in cases[0]} & {e.seed for e in cases[1]}


def test_a_larger_evaluation_begins_with_the_cases_of_a_smaller() -> None:
    few = evaluator().episodes(SETTINGS, count=3)
    many = evaluator().episodes(SETTINGS, count=9)
    assert without_place(few) == without_place(many)[:3]


def test_no_more_envs_are_made_than_there_are_episodes() -> None:
    arena = Arena()
    measured = EpisodeEvaluator(arena, DiaryPolicy(), EvaluateConfig(num_envs=8))
    measured.episodes(SETTINGS, count=3)
    assert arena.counts == [3]
    assert arena.closed == 1


def test_hard_starts_of_training_do_not_enter_the_fixed_cases() -> None:
    training = Settings([TILT, STARTS], {STARTS.name: (1, 2, 3)})
    episodes = evaluator().episodes(training, count=6)
    assert not any(STARTS_USED in episode.metrics for episode in episodes)
    assert without_place(episodes) == without_place(evaluator().episodes(SETTINGS, count=6))


def test_the_policy_acts_without_noise() -> None:
    policy = DiaryPolicy()
    evaluator(policy=policy).measure(Progress(), SETTINGS)
    assert policy.noise_seeds == [NO_NOISE]


class Recalling(DiaryPolicy):
    """Refuses a memory that does not fit the page."""

    def act(
        self,
        obs: TensorTree,
        memory: Memory,
        settings: Settings,
        *,
        mask: Tensor | None = None,
        generator: Generators | None = None,
    ) -> Act:
        assert torch.equal(memory["age"], obs["step"].float())
        return super().act(obs, memory, settings, mask=mask, generator=generator)


@pytest.mark.parametrize("greedy", [True, False], ids=["greedy", "sampled"])
def test_memory_is_cleared_between_cases(*, greedy: bool) -> None:
    evaluator(policy=Recalling(), num_envs=3, greedy=greedy).measure(Progress(), SETTINGS)


class Failing(DiaryPolicy):
    """Cannot act."""

    def initial_state(self, rows: int) -> Memory:
        raise ZeroDivisionError


def test_the_envs_are_closed_even_if_the_policy_fails() -> None:
    arena = Arena()
    with pytest.raises(ZeroDivisionError):
        EpisodeEvaluator(arena, Failing(), CONFIG).episodes(SETTINGS, count=3)
    assert arena.closed == 1


@pytest.mark.parametrize(
    ("every", "due"), [(0, []), (1, [1, 2, 3, 4, 5, 6]), (2, [2, 4, 6]), (5, [5])]
)
def test_an_evaluation_is_due_every_so_many_iterations(every: int, due: list[int]) -> None:
    measured = EpisodeEvaluator(Arena(), DiaryPolicy(), EvaluateConfig(every_iterations=every))
    assert [n for n in range(1, 7) if measured.due(Progress(n))] == due


def test_figures_are_those_of_the_returns() -> None:
    returns = [3.0, -1.0, 4.0, 0.5]
    episodes = [
        Episode(0, n, n, 10 + n, value, "over", {"right": 1.0} if n % 2 else {})
        for n, value in enumerate(returns)
    ]
    measured = figures(episodes)
    assert measured["eval/mean_reward"] == pytest.approx(1.625)
    assert measured["eval/std_reward"] == pytest.approx(
        float(torch.tensor(returns).std(correction=0))
    )
    assert measured["eval/min_reward"] == -1.0
    assert measured["eval/max_reward"] == 4.0
    assert measured["eval/mean_ep_length"] == 11.5
    assert measured["eval/right"] == 1.0, "an episode that lacks a figure does not count in it"
    assert all(math.isfinite(value) for value in measured.values())


def test_cases_are_dealt_round_robin() -> None:
    cases = ListedSeeds((10, 20, 30), envs=2)
    assert [cases.seed(env, 0) for env in range(2)] == [10, 20]
    assert cases.seed(0, 1) == 30
    assert cases.case(1, 1) == 3, "past the end: nobody reads it"
