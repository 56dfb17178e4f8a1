"""What tasks may say about themselves."""

from __future__ import annotations

from longhaul.tasks.fish.task import HINTS as FISH
from longhaul.tasks.mario.hints import (
    LearnedToStandStill,
    NoForwardProgress,
    ProgressPlateau,
)
from tests.hints.streams import Metrics, Stream, steady


def test_mario_that_wins_no_ground_is_told_once() -> None:
    stream = Stream(steady(env__max_progress=3.0, env__helping=0.0), facts={"options.script": ""})
    (said,) = stream.hints_of(NoForwardProgress())
    assert said[0] == 10
    assert "options.script = 'FORWARD:40'" in said[1].text
    assert said[1].finding.value == 20


def test_a_script_that_is_there_is_named() -> None:
    stream = Stream(steady(env__max_progress=0.0), facts={"options.script": "RIGHT:40"})
    assert "Begin episodes with the script" in stream.hints_of(NoForwardProgress())[0][1].text


def test_mario_that_wins_ground_or_is_helped_is_let_alone() -> None:
    for metrics in (
        steady(env__max_progress=400.0),
        steady(env__max_progress=0.0, env__helping=2.0),
        lambda number: {"env/max_progress": 30.0 * (number % 5 == 0)},
    ):
        assert Stream(metrics).hints_of(NoForwardProgress()) == []


def test_mario_that_learns_to_stand_still_is_advised_a_cheaper_death() -> None:
    def metrics(number: int) -> dict[str, float]:
        if number < 12:
            return {"env/progress": 150.0, "env/ended/stagnation": 0.02}
        return {"env/progress": 75.0, "env/ended/stagnation": 0.6}

    facts = {"options.reward.death": -5.0}
    (said, *_) = Stream(metrics, facts=facts).hints_of(LearnedToStandStill())
    assert said[0] >= 20
    assert said[1].finding.setting == "options.reward.death"
    assert said[1].finding.value == -1.0


def test_mario_that_stands_but_comes_farther_is_let_alone() -> None:
    for metrics in (
        lambda number: {"env/progress": 100.0 + 5 * number, "env/ended/stagnation": 0.8},
        lambda number: {"env/progress": 150.0 - number, "env/ended/pit": 0.9},
        steady(env__progress=100.0, env__ended__stagnation=0.9),
    ):
        assert Stream(metrics).hints_of(LearnedToStandStill()) == []


def climbing(until: int, **others: float) -> Metrics:
    """Return a run whose farthest end grows by 20 pixels an iteration until it does not."""
    return lambda n: {"env/max_progress": 20.0 * min(n, until), **steady(**others)(n)}


def test_mario_who_stops_getting_farther_is_noticed_once_half_a_window_brought_nothing() -> None:
    facts = {"options.starts.share": 0.0, "learn.ent_coef": 0.01}
    (said, *_) = Stream(climbing(70), facts=facts).hints_of(ProgressPlateau())
    assert said[0] == 120
    assert "1400 pixels from the start; 1400 were reached before" in said[1].text
    assert (said[1].finding.setting, said[1].finding.value) == ("options.starts.share", 0.4)


def test_mario_who_has_hard_starts_already_is_advised_to_explore() -> None:
    facts = {"options.starts.share": 0.4, "learn.ent_coef": 0.01}
    metrics = lambda n: {"env/max_progress": 900.0 - n, "starts/farthest": 2000.0}  # noqa: E731
    (said, *_) = Stream(metrics, facts=facts).hints_of(ProgressPlateau())
    assert "2000 pixels from the start" in said[1].text
    assert (said[1].finding.setting, said[1].finding.value) == ("learn.ent_coef", 0.02)


def test_mario_who_gets_farther_or_clears_his_stage_is_let_alone() -> None:
    for metrics in (
        climbing(150),
        climbing(70, env__clear_rate=0.05),
        steady(env__max_progress=3.0),
    ):
        assert Stream(metrics).hints_of(ProgressPlateau()) == []


def test_the_fish_name_their_own_options() -> None:
    gate, queue = FISH
    stuck = Stream(
        lambda n: {
            "gate/penalty_held": float(n),
            "gate/penalty_stage": 1.0,
            "gate/penalty_missing/eval/p10": 23.5,
        }
    )
    (said,) = stuck.hints_of(gate)
    assert said[1].finding.setting == "options.training.gate.success_p10"
    assert "eval/p10, which is 23.5 from its threshold" in said[1].text
    low = Stream(steady(starts__tail_warning=1.0, starts__tail_remaining=4.0))
    assert low.hints_of(queue)[0][1].finding.setting == "options.tail.stages"
