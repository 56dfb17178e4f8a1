"""What tasks may say about themselves."""

from __future__ import annotations

from longhaul.tasks.fish.hints import HINTS as FISH
from longhaul.tasks.mario.hints import NoForwardProgress
from tests.hints.streams import Stream, steady


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
