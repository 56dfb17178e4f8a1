from __future__ import annotations

import numpy as np
import pytest

from longhaul.core.env import BatchedEnvs, Episode
from longhaul.tasks.mario.evaluation import suites
from longhaul.tasks.mario.game import reward as at
from longhaul.tasks.mario.game.games import Games
from longhaul.tasks.mario.options import MarioOptions
from longhaul.tasks.mario.rom import STAND_IN
from longhaul.tasks.mario.whole_game import ONE_LIFE, PRINCESS, WHOLE_GAME, figures, record

OPTIONS = MarioOptions(rom=STAND_IN, stages=("1-2",), final_episodes=3)


def game(name: str) -> Games:
    envs = suites(OPTIONS, STAND_IN)(name).envs
    assert isinstance(envs, BatchedEnvs)
    made = envs.make(1)
    assert isinstance(made, Games)
    made.reset(np.arange(1), np.zeros(1, np.int64), [("stage", "1-1")])
    return made


def held(games: Games, action: int, most: int = 3000) -> list[int]:
    """Hold an action until the game is over; return the stages that were passed through."""
    seen = []
    for _ in range(most):
        games.step(0, 1, np.full(1, action, np.int64))
        seen.append(int(games.figures[0, at.STAGE]))
        if games.over[0]:
            break
    return seen


def test_a_whole_game_begins_in_the_first_stage_whatever_the_run_plays() -> None:
    suite = suites(OPTIONS, STAND_IN)(WHOLE_GAME)
    assert len(suite.cases) == 3
    assert {case.start for case in suite.cases} == {("stage", "1-1")}
    assert len({case.seed for case in suite.cases}) == 3


@pytest.mark.parametrize(("name", "deaths"), [(WHOLE_GAME, 3), (ONE_LIFE, 1)])
def test_a_game_has_its_lives(name: str, deaths: int) -> None:
    games = game(name)
    held(games, 1)
    assert games.over[0]
    assert games.figures[0, at.DEATHS] == deaths
    assert games.ending(0).facts["last_stage"] == "1-1"


def ended(reason: str, cleared: int, stage: str) -> Episode:
    return Episode(0, 0, 0, 9, 0.0, reason, {"cleared": float(cleared)}, {"last_stage": stage})


def test_only_the_last_axe_is_the_princess() -> None:
    games = [ended("axe", 32, "8-4"), ended("enemy", 4, "2-1"), ended("enemy", 4, "2-1")]
    found = figures(games)
    assert found[PRINCESS] == pytest.approx(1 / 3)
    assert found["eval/mean_stages"] == pytest.approx(40 / 3)
    assert found["eval/max_stages"] == 32
    assert {"stage": "2-1", "reason": "enemy", "games": 2} in record(games)["ends"]
