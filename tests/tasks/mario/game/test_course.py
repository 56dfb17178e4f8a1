from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from longhaul.core.errors import ConfigError
from longhaul.engine.demo import load_demo, play
from longhaul.tasks.mario.game import reward as at
from longhaul.tasks.mario.game.course_view import COURSE, COURSE_SIZE, on_stages
from longhaul.tasks.mario.game.games import GameFactory
from longhaul.tasks.mario.game.memory import AREA_POINTER, MAZE_AHEAD, MAZE_PASSED, MAZE_RIGHT
from longhaul.tasks.mario.game.options import GameOptions
from longhaul.tasks.mario.game.stages import Stage
from longhaul.tasks.mario.payments import RewardOptions, TermReward
from longhaul.tasks.mario.rom import STAND_IN, find_rom
from longhaul.tasks.mario.search_space import StageSpace
from tests.tasks.mario.cartridges import game_or_skip

DEMOS = Path(__file__).parents[1] / "demos"


@dataclass(frozen=True)
class Course:
    """What was counted along a demonstration of a stage, decision by decision."""

    answers: list[int]
    new_areas: int
    progress: int
    areas: int
    destinations: int


def followed(stage: str) -> Course:
    game_or_skip()
    demo = load_demo(DEMOS / f"{stage}.demo")
    space = StageSpace(GameOptions(), "", stage, 1, 1)
    answers, new_areas, destinations = [], 0, set()
    own = space._games.figures[0]
    for number, _ in enumerate(play(space, demo)):
        if number:
            answers.append(int(own[at.ANSWERED]))
            new_areas += int(own[at.NEW_AREA])
        destinations.add(int(space._games.consoles.ram[0, AREA_POINTER]))
    return Course(
        [answer for answer in answers if answer],
        new_areas,
        int(own[at.PROGRESS]),
        int(own[at.AREA_COUNT]),
        len(destinations),
    )


@pytest.mark.parametrize(
    ("stage", "answers"), [("4-4", [1, 1]), ("7-4", [1] * 6), ("8-4", [-1]), ("1-2", [])]
)
def test_answers_to_a_maze_are_those_the_game_counts(stage: str, answers: list[int]) -> None:
    assert followed(stage).answers == answers


def test_an_area_is_where_mario_is_and_not_where_the_next_pipe_leads() -> None:
    course = followed("8-4")
    assert course.areas == 2
    assert course.destinations == 3
    # Three pipes within the castle lead far ahead, one into the water.
    assert course.new_areas == 4
    # Ground in the water and behind it counts as well.
    assert course.progress > 4000


def test_going_down_a_pipe_is_a_new_area_once() -> None:
    assert followed("1-2").new_areas == 1


def answered(before: tuple[int, int, int], after: tuple[int, int, int]) -> tuple[int, float]:
    """Return what a step counts and pays that changes the counters so: right, passed, ahead."""
    source = TermReward(RewardOptions(maze=2.0))
    cartridge = find_rom(STAND_IN).cartridge
    games = GameFactory(GameOptions(rom=STAND_IN), cartridge, source)(1)
    games.reset(np.arange(1), np.zeros(1, np.int64), [None])
    own, ram = games.figures[0], games.consoles.ram[0]
    own[at.MAZE_WAS], own[at.PASSED_WAS], own[at.AHEAD_WAS] = before
    ram[MAZE_RIGHT], ram[MAZE_PASSED], ram[MAZE_AHEAD] = after
    games.step(0, 1, np.zeros(1, np.int64))
    return int(own[at.ANSWERED]), float(games._slots.terms["maze"][0])


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((0, 0, 1), (1, 1, 0), (1, 2.0)),
        ((1, 1, 1), (1, 2, 0), (-1, -2.0)),
        ((2, 2, 1), (0, 0, 0), (1, 2.0)),
        ((0, 0, 1), (0, 0, 0), (1, 2.0)),
        ((0, 0, 1), (0, 0, 1), (0, 0.0)),
        ((1, 1, 0), (1, 1, 1), (0, 0.0)),
    ],
)
def test_a_check_is_judged_when_the_game_looks_ahead_no_more(
    before: tuple[int, int, int], after: tuple[int, int, int], expected: tuple[int, float]
) -> None:
    assert answered(before, after) == expected


def test_the_course_is_shown_as_numbers_if_asked_for() -> None:
    options = GameOptions(rom=STAND_IN, course_numbers=True, stages=("2-3",))
    games = GameFactory(options, find_rom(STAND_IN).cartridge)(2)
    assert games.spec.observation[COURSE].shape == (COURSE_SIZE,)
    games.reset(np.arange(2), np.zeros(2, np.int64), [None, ("stage", "8-4")])
    shown = games._slots.obs[COURSE]
    assert np.flatnonzero(shown[0, :12]).tolist() == [1, 10]
    assert np.flatnonzero(shown[1, :12]).tolist() == [7, 11]
    seen = {COURSE: torch.from_numpy(shown)}
    assert on_stages((Stage(2, 3), Stage(1, 1)))(seen).tolist() == [True, False]
    assert on_stages((Stage(8, 3), Stage(2, 4)))(seen).tolist() == [False, False]
    with pytest.raises(ConfigError, match=r"need options\.course_numbers = true"):
        on_stages((Stage(2, 3),))({})
    plain = GameFactory(GameOptions(rom=STAND_IN), find_rom(STAND_IN).cartridge)(1)
    assert COURSE not in plain.spec.observation
