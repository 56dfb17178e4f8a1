"""Rows 7, 8, 20, 21 and 22 of the checklist: what an evaluation plays and what it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from longhaul.core.control import Progress
from longhaul.core.env import Episode
from longhaul.core.errors import ConfigError
from longhaul.core.evaluation import Suite
from longhaul.core.settings import Settings
from longhaul.core.task import Evaluation
from longhaul.engine.config import EvaluateConfig
from longhaul.engine.evaluator import SuiteEvaluator
from longhaul.envs.build import make_vector_env
from longhaul.envs.config import EnvConfig
from longhaul.envs.starts import STARTS, STARTS_LIMIT
from longhaul.nets.actor_critic import ActorCritic, build_policy
from longhaul.nets.config import PolicyConfig
from longhaul.tasks.fish.evaluation.evaluation import (
    FishEvaluation,
    bounds,
    death_table,
    evaluation_metrics,
    find_suite,
    intervals,
    suites,
)
from longhaul.tasks.fish.evaluation.suites import (
    FishSuite,
    UnavoidableDeaths,
    fresh,
    play_suite,
    version_38,
)
from longhaul.tasks.fish.options import (
    DENSITY_PENALTY,
    ESCAPE_BOOST,
    FishEvaluationOptions,
    FishOptions,
)
from longhaul.tasks.fish.task import build
from longhaul.tasks.fish.world.school import DEATH_STEPS, fish_envs
from longhaul.tasks.kind import TaskRequest

OPTIONS = FishOptions(fish=25, short_share=0.9)
FEW = replace(fresh(3, FishEvaluationOptions(episodes=6)), fish=9)


def small(name: str) -> Suite:
    """Return a suite of a few small schools under any name."""
    return FishEvaluation(replace(FEW, name=name), OPTIONS).suite()


def requested(options: FishOptions) -> TaskRequest:
    return TaskRequest("", options, EnvConfig(), PolicyConfig(hidden=(8,)))


def network() -> ActorCritic:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build_policy(fish_envs(OPTIONS).spec, PolicyConfig(hidden=(8,)))


def evaluator(config: EvaluateConfig) -> SuiteEvaluator:
    return SuiteEvaluator(
        lambda envs, seeds, count: make_vector_env(envs, count=count, seeds=seeds, threads=1),
        network(),
        config,
        Evaluation(metric="eval/score", suite=small, during="few"),
        until=lambda progress: "over" if progress.iteration == 30 else None,
    )


SETTINGS = Settings([STARTS, STARTS_LIMIT, ESCAPE_BOOST, DENSITY_PENALTY])


def test_the_engine_plays_what_play_suite_plays() -> None:
    episodes = evaluator(EvaluateConfig()).episodes(small("few"), SETTINGS)
    policy = network()

    def act(obs: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            seen = {"obs": torch.from_numpy(obs)}
            actions: np.ndarray = policy.act(seen, {}, SETTINGS).action.numpy()
        return actions

    outcome = play_suite(FEW, OPTIONS, act)
    np.testing.assert_array_equal(death_table(episodes), outcome)
    assert [e.seed for e in episodes] == [start.seed for start in FEW.starts]
    assert {e.length for e in episodes} == {500}, "whole episodes, though training cuts most"


def test_row_21_the_same_policy_and_suite_give_the_same_digits() -> None:
    first, second = (evaluator(EvaluateConfig()).measure(Progress(4), SETTINGS) for _ in range(2))
    assert first == second


def test_settings_and_hard_starts_of_training_do_not_move_the_benchmark() -> None:
    moved = SETTINGS.with_(
        [
            ESCAPE_BOOST.to(0.1),
            DENSITY_PENALTY.to(3.0),
            STARTS.to((("seed", 1),)),
            STARTS_LIMIT.to(50),
        ]
    )
    calm = evaluator(EvaluateConfig()).measure(Progress(4), SETTINGS)
    assert evaluator(EvaluateConfig()).measure(Progress(4), moved) == calm


def test_row_22_a_rotating_suite_plays_another_one_each_time() -> None:
    measured = evaluator(EvaluateConfig(rotate=True, suite="fresh"))
    for iteration in (4, 8):
        measured.measure(Progress(iteration), SETTINGS)
    assert [note.as_row()["suite"] for note in measured.take_notes()] == ["fresh-4", "fresh-8"]
    assert measured.take_notes() == []
    assert not {s.seed for s in fresh(4).starts} & {s.seed for s in fresh(8).starts}


def test_an_evaluation_leaves_seeds_and_deaths_in_the_events() -> None:
    measured = evaluator(EvaluateConfig())
    measured.measure(Progress(4), SETTINGS)
    (note,) = measured.take_notes()
    row = note.as_row()
    assert (row["event"], row["suite"], len(row["episodes"])) == ("evaluated", "few", 6)
    assert [e["seed"] for e in row["episodes"]] == [start.seed for start in FEW.starts]


def test_the_last_iteration_is_evaluated_too() -> None:
    measured = evaluator(EvaluateConfig(every_iterations=7))
    assert [n for n in range(1, 31) if measured.due(Progress(n))] == [7, 14, 21, 28, 30]
    assert not evaluator(EvaluateConfig()).due(Progress(30)), "unless there are none at all"


FLOOR = UnavoidableDeaths(np.array([[True, False, False, False], [False, False, False, False]]))


def test_row_20_every_figure_of_a_hand_made_table() -> None:
    deaths = np.array([[1, 1, 100, -1], [500, 149, -1, -1]], np.int32)
    found = evaluation_metrics(deaths, FLOOR, time_limit=500)
    expected = {
        "avg_final_survival_rate": 0.375,
        "min_final_survival_rate": 0.25,
        "early_death_fraction_100": 2 / 8,
        "early_death_fraction_150": 4 / 8,
        "survival_fraction": 4 / 8,  # with the one that died in step 500
        "total_fish_samples": 8,
        "step_one_death_count": 2,
        "step_one_death_ratio": 2 / 8,
        "step_one_excess": 1,
        "step_one_excess_ratio": 1 / 8,
        "step_one_excess_per_1000": 125,
        "survival_bound": 7 / 8,
        "p10": 1,
        "median_death_step": (149 + 500) / 2,
        "score": 0.375 + 0.25e-4,
    }
    assert {name: found[f"eval/{name}"] for name in expected} == pytest.approx(expected)


def test_the_score_ranks_by_the_mean_and_equals_by_the_worst_episode() -> None:
    def score(*alive: int) -> float:
        deaths = np.array([[-1] * one + [9] * (96 - one) for one in alive], np.int32)
        return evaluation_metrics(deaths, FLOOR, time_limit=500)["eval/score"]

    assert score(90, 90) > score(91, 89)
    assert score(91, 90) > score(90, 90)
    many = [95] * 83
    assert score(*many, 1) > score(*many, 0), "one fish of 84 x 96 outweighs any worst episode"


def test_row_8_the_bound_loses_the_doomed_only() -> None:
    best = bounds(FLOOR, time_limit=500)
    assert best["eval/avg_final_survival_rate"] == 7 / 8
    assert best["eval/min_final_survival_rate"] == 3 / 4
    assert best["eval/step_one_excess"] == 0


def test_intervals_hold_the_figures_and_narrow_with_more_episodes() -> None:
    generator = np.random.default_rng(0)
    deaths = np.where(generator.random((100, 20)) < 0.2, 50, -1).astype(np.int32)
    wide = intervals(deaths[:10], time_limit=500)["eval/avg_final_survival_rate"]
    narrow = intervals(deaths, time_limit=500)["eval/avg_final_survival_rate"]
    assert narrow[0] <= (deaths < 0).mean() <= narrow[1]
    assert narrow[1] - narrow[0] < wide[1] - wide[0]
    assert intervals(deaths, time_limit=500) == intervals(deaths, time_limit=500)
    # The normal approximation, which the bootstrap must agree with here.
    error = (deaths < 0).mean(axis=1).std() / 10
    assert narrow[1] - narrow[0] == pytest.approx(2 * 1.96 * error, rel=0.15)


def test_row_7_references_are_played_on_the_same_cases() -> None:
    played = FishEvaluation(FEW, OPTIONS).references()
    assert {"random", "keep", "brake", "flee", "sidestep", "planner, safe side"} <= played.keys()
    for episodes in played.values():
        assert [e.seed for e in episodes] == [start.seed for start in FEW.starts]
        assert all(len(e.facts[DEATH_STEPS]) == FEW.fish for e in episodes)
    means = {name: mean_survival(episodes) for name, episodes in played.items()}
    assert means["planner, safe side"] == max(means.values())


def mean_survival(episodes: tuple[Episode, ...]) -> float:
    return sum(e.metrics["survival_rate"] for e in episodes) / len(episodes)


@pytest.mark.parametrize(
    ("name", "cases", "fish"),
    [("v38", 84, 96), ("v38-24", 12, 96), ("fresh", 100, 96), ("rehearsal-3", 64, 48)],
)
def test_a_suite_is_found_by_its_name(name: str, cases: int, fish: int) -> None:
    suite = find_suite(name)
    assert (len(suite.starts), suite.fish) == (cases, fish)


@pytest.mark.parametrize("name", ["v38", "v38-24", "fresh-2", "rehearsal-3"])
def test_the_options_size_every_evaluation(name: str) -> None:
    evaluations = 7 if name == "v38" else 1
    suite = find_suite(name, FishEvaluationOptions(episodes=16, fish=32))
    assert (len(suite.starts), suite.fish) == (16 * evaluations, 32)
    assert name in ("v38", "v38-24") or suite.starts == find_suite(name).starts[:16]


@pytest.mark.parametrize("name", ["v38", "fresh", "fresh-2", "rehearsal"])
def test_a_seed_base_gives_other_episodes(name: str) -> None:
    seeds = [
        {start.seed for start in find_suite(name, FishEvaluationOptions(seed_base=base)).starts}
        for base in (0, 7, 8)
    ]
    assert len(set.union(*seeds)) == sum(map(len, seeds))
    recorded_base = FishEvaluationOptions(episodes=12, seed_base=411232)
    assert find_suite("v38", recorded_base) == version_38()


def test_evaluations_of_other_sizes_are_not_compared_with_the_suites_own() -> None:
    sizes = FishEvaluationOptions(episodes=3, seed_base=5)
    changed = suites(replace(OPTIONS, evaluation=sizes))("fresh")
    assert changed.conditions == "episodes 3, seed base 5"
    assert [case.seed for case in changed.cases] == [start.seed for start in fresh(0, sizes).starts]
    assert suites(OPTIONS)("rehearsal").conditions == ""


def test_films_have_as_many_fish_as_the_options_say() -> None:
    options = FishOptions(evaluation=FishEvaluationOptions(film_fish=7))
    evaluation = build(requested(options)).evaluation
    assert evaluation.suite is not None
    assert evaluation.suite(evaluation.films).envs.spec.rows == 7
    assert build(requested(FishOptions())).evaluation.films == ""


def test_an_unknown_suite_is_refused_with_those_there_are() -> None:
    for name in ("v83", "fresh-", "fresh-x", ""):
        with pytest.raises(ConfigError, match="suites: v38, fresh, rehearsal, films"):
            find_suite(name)


def test_recorded_evaluations_are_the_blocks_of_the_whole_suite() -> None:
    blocks = [find_suite(f"v38-{iteration}") for iteration in range(8, 57, 8)]
    assert tuple(start for block in blocks for start in block.starts) == version_38().starts
    assert find_suite("v38-60").starts == blocks[-1].starts


def test_no_reported_episode_is_in_the_suite_that_picks() -> None:
    def seeds(suite: FishSuite) -> set[int]:
        return {start.seed for start in suite.starts}

    picks = seeds(find_suite("rehearsal"))
    assert not picks & (seeds(find_suite("v38")) | seeds(find_suite("fresh")))
