"""Stages played to their end: flag, pipes between areas, axe, mazes, and what comes after."""

from __future__ import annotations

import numpy as np
import pytest

from longhaul.core.env import StepBuffers
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.game import reward as at
from longhaul.tasks.mario.game.games import GameFactory, Games
from longhaul.tasks.mario.game.movies import script_bytes
from longhaul.tasks.mario.game.options import GameOptions
from tests.tasks.mario.runs import RUNS, WRONG_WAY_IN_4_4

pytestmark = pytest.mark.emulator


def play(
    cartridge: Cartridge, stage: str, script: str = "", *, ends: bool = True
) -> tuple[Games, StepBuffers, list[int]]:
    """Play a script, or the run through a stage; return the ground gained in each step as well."""
    script = script or RUNS[stage]
    options = GameOptions(stages=(stage,), script=script, ends_at_clear=ends, stagnation_limit=0)
    factory = GameFactory(options, cartridge)
    games, slots = factory(1), StepBuffers.allocate(factory.spec, 1)
    games.bind(slots)
    games.reset(np.arange(1), np.zeros(1, np.int64), [None])
    gains = []
    for _ in script_bytes(script):
        games.step(0, 1, np.zeros(1, np.int64))
        gains.append(int(games.figures[0, at.GAINED]))
        assert slots.forced[0]
        if games.over[0]:
            break
    return games, slots, gains


@pytest.mark.parametrize(("stage", "reason"), [("1-1", "flag"), ("1-2", "flag"), ("4-4", "axe")])
def test_a_run_through_a_stage_ends_with_its_flag_or_axe(
    cartridge: Cartridge, stage: str, reason: str
) -> None:
    games, slots, _ = play(cartridge, stage)
    ending = games.ending(0)
    assert ending.reason == reason
    assert ending.metrics["cleared"] == 1.0
    assert ending.facts["stage"] == stage
    assert slots.terminated[0]
    assert not slots.truncated[0]


def test_no_step_gains_more_ground_than_mario_can_run(cartridge: Cartridge) -> None:
    # 1-2 leads through a pipe into another area, where x begins anew.
    for stage in RUNS:
        games, _, gains = play(cartridge, stage)
        assert max(gains) <= 16
        assert sum(gains) == games.figures[0, at.PROGRESS]


def test_a_pipe_is_passed_in_one_step(cartridge: Cartridge) -> None:
    games, _, _ = play(cartridge, "1-2")
    own = games.figures[0]
    assert own[at.AREA_COUNT] >= 2
    assert own[at.FRAMES] > 4 * own[at.ELAPSED]


def test_a_maze_that_puts_mario_back_is_noticed_and_pays_nothing(cartridge: Cartridge) -> None:
    games, _, gains = play(cartridge, "4-4", WRONG_WAY_IN_4_4)
    own = games.figures[0]
    assert (own[at.LOOPED], own[at.LOOPS]) == (1, 1)
    assert gains[-1] == 0
    assert own[at.BEST_X] - own[at.X] > 900
    assert sum(gains) == own[at.BEST_X] - 40
    for _ in range(20):
        games.step(0, 1, np.array([3]))
    assert own[at.PROGRESS] == sum(gains)
    assert own[at.LOOPS] == 1


def test_the_game_goes_on_with_the_next_stage_if_asked_for(cartridge: Cartridge) -> None:
    games, slots, _ = play(cartridge, "1-1", ends=False)
    assert not games.over[0]
    told = games.facts(0)
    assert (told.world, told.stage) == (1, 2)
    assert told.playing
    assert games.figures[0, at.CLEARED] == 1
    assert slots.terms["clear"][0] == 5.0
    games.step(0, 1, np.zeros(1, np.int64))
    assert slots.terms["clear"][0] == 0.0
