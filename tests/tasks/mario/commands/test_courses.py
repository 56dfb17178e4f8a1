"""The stages as courses: what each begins with, and what is told of an obstacle."""

from __future__ import annotations

import pytest

from longhaul.app.build.config import RunConfig
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.core.config import convert
from longhaul.tasks.mario.actions import action_set
from longhaul.tasks.mario.commands.campaign_plan import PIPE_BUTTONS, TWINS, obstacle, stage_courses
from longhaul.tasks.mario.options import MarioOptions

COURSES = {course.name: course for course in stage_courses("all")}


def test_all_means_every_stage_in_the_order_of_the_game() -> None:
    assert list(COURSES) == [f"{world}-{stage}" for world in range(1, 9) for stage in range(1, 5)]


def test_single_stages_and_spans_are_listed_once() -> None:
    assert [course.name for course in stage_courses("1-3, 1-2..2-1")] == [
        "1-3",
        "1-2",
        "1-4",
        "2-1",
    ]


@pytest.mark.parametrize("name", COURSES)
def test_a_stage_learns_from_others_of_its_kind_and_a_twin_first(name: str) -> None:
    like = COURSES[name].like
    assert set(like) <= set(COURSES) - {name}
    assert len(set(like)) == len(like)
    if name in TWINS:
        assert like[0] == TWINS[name]


def test_castles_learn_from_castles() -> None:
    assert "1-4" in COURSES["3-4"].like
    assert COURSES["3-1"].like == ()


@pytest.mark.parametrize("name", COURSES)
def test_the_preset_takes_every_override_of_a_course(name: str) -> None:
    config = _configured(name)
    options = convert(config.options, MarioOptions, where="options")
    assert options.stages == (name,)
    assert options.games().sticky == options.sticky


def test_the_stage_of_pipes_can_go_down_and_has_a_network_like_the_others() -> None:
    options = convert(_configured("8-4").options, MarioOptions, where="options")
    assert options.buttons == PIPE_BUTTONS
    assert "DOWN" in options.action_set().names
    assert len(options.action_set()) == len(action_set("simple"))
    assert options.action_set().names[1:] == action_set("simple").names[1:]


@pytest.mark.parametrize(("name", "limit"), [("4-3", 90), ("4-4", 300), ("8-4", 300)])
def test_mazes_may_be_walked_again(name: str, limit: int) -> None:
    assert (
        convert(_configured(name).options, MarioOptions, where="options").stagnation_limit == limit
    )


def test_what_ends_most_episodes_is_told_with_its_place() -> None:
    ends = [{"reason": "pit", "x": 710}, {"reason": "pit", "x": 730}, {"reason": "enemy", "x": 9}]
    assert obstacle({"stages": [{"episodes": 5, "ends": ends}]}) == "pit near x 736 (2 of 5)"


def _configured(name: str) -> RunConfig:
    return resolve(ConfigSources("mario", overrides=COURSES[name].overrides))
