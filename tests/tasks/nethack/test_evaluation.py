from __future__ import annotations

import pytest

from longhaul.core.env import Episode
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.tasks.nethack.evaluation import evaluation_metrics, intervals, one_cap, record, suites
from longhaul.tasks.nethack.options import NetHackOptions
from longhaul.tasks.nethack.skills import ACTION_SETS


def episode(score: float, *, cap: int = 2000, reason: str = "death", level: int = 1) -> Episode:
    metrics = {"score": score, "deepest_level": level, "turns": 300.0, "step_cap": cap}
    return Episode(0, 0, 7, 400, score, reason, metrics)


def test_figures_are_of_the_true_score() -> None:
    games = [episode(10.0), episode(30.0, level=3, reason="cap"), episode(110.0)]
    found = evaluation_metrics(games)
    assert found["eval/score"] == 50.0
    assert found["eval/score_median"] == 30.0
    assert found["eval/score_max"] == 110.0
    assert found["eval/deepest_level"] == pytest.approx(5 / 3)
    assert found["eval/ended/death"] == pytest.approx(2 / 3)
    assert found["eval/ended/cap"] == pytest.approx(1 / 3)
    assert found["eval/step_cap"] == 2000
    assert found["eval/ended/abort"] == found["eval/ended/ascended"] == 0.0


def test_games_of_different_caps_are_not_compared() -> None:
    games = [episode(10.0), episode(30.0, cap=500)]
    for measure in (evaluation_metrics, record, one_cap):
        with pytest.raises(ConfigError, match=r"different caps are not compared.*500, 2000"):
            measure(games)


def test_intervals_hold_the_figure_and_are_the_same_every_time() -> None:
    games = [episode(float(score)) for score in range(0, 200, 5)]
    low, high = intervals(games)["eval/score"]
    assert low < evaluation_metrics(games)["eval/score"] < high
    assert intervals(games) == intervals(games)


def test_the_record_keeps_cap_seed_and_end_of_every_game() -> None:
    kept = record([episode(10.0), episode(30.0, reason="cap")])
    assert kept["step_cap"] == 2000
    assert [game["reason"] for game in kept["games"]] == ["death", "cap"]
    assert [game["score"] for game in kept["games"]] == [10.0, 30.0]


def test_held_out_games_are_never_dealt_while_training() -> None:
    find = suites(NetHackOptions())
    held_out = {case.seed for case in find("held-out").cases}
    rehearsal = {case.seed for case in find("rehearsal").cases}
    dealt = DerivedSeeds(Seeds(1))
    trained = {dealt.seed(env, number) for env in range(32) for number in range(200)}
    assert len(held_out) == 200
    assert not held_out & rehearsal
    assert not (held_out | rehearsal) & trained
    assert {case.seed for case in find("held-out-3").cases}.isdisjoint(held_out)


def test_a_suite_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match=r"'held-in'; did you mean 'held-out'\?.*rehearsal"):
        suites(NetHackOptions())("held-in")


def test_the_uncapped_suite_plays_the_held_out_games_to_their_end() -> None:
    find = suites(NetHackOptions(eval_episodes=3))
    assert find("uncapped").cases == find("held-out").cases
    assert find("uncapped").conditions == "cap 20000"
    assert "cap 20000" in find("uncapped").envs.spec.id


def test_action_sets_are_measured_under_different_conditions() -> None:
    found = {suites(NetHackOptions(actions=one))("held-out").conditions for one in ACTION_SETS}
    assert found == {"cap 2000", "cap 2000, actions extended"}


def test_a_suite_says_under_which_cap_it_is_played() -> None:
    assert suites(NetHackOptions(max_steps=500))("rehearsal").envs.spec.id.find("cap 500") > 0
