from __future__ import annotations

import numpy as np
import pytest

from longhaul.core.seeds import Seeds
from longhaul.engine.demo import Demo, play, starts_along, verify
from longhaul.engine.explorer import Explorer
from longhaul.tasks.mario.game import memory as ram_at
from longhaul.tasks.mario.game.games import GameFactory
from longhaul.tasks.mario.game.options import GameOptions
from longhaul.tasks.mario.rom import STAND_IN, find_rom
from longhaul.tasks.mario.search_space import StageSpace, stage_cells, stage_search
from tests.tasks.mario.cartridges import game_or_skip

OPTIONS = GameOptions(rom=STAND_IN)
SEARCH = stage_search(OPTIONS, STAND_IN)


def searched(threads: int, steps: int = 60) -> Explorer:
    space = SEARCH.space("1-1", 16, threads)
    explorer = Explorer(space, Seeds(0).generator("explore", "1-1"))
    explorer.begin()
    for _ in range(steps):
        explorer.advance()
    space.close()
    return explorer


def test_the_number_of_threads_changes_nothing() -> None:
    assert searched(1).archive.digest() == searched(2).archive.digest()


def test_a_search_goes_on_from_a_saved_state_with_new_consoles() -> None:
    whole, first = searched(1), searched(1, steps=30)
    space = SEARCH.space("1-1", 16, 1)
    second = Explorer(space, np.random.default_rng(7))
    second.load_state_dict(first.state_dict())
    for _ in range(30):
        second.advance()
    assert second.archive.digest() == whole.archive.digest()


def test_what_was_found_is_repeated_by_a_fresh_console_and_gives_starts() -> None:
    space = SEARCH.space("1-1", 64, 2)
    explorer = Explorer(space, Seeds(0).generator("explore", "1-1"))
    explorer.begin()
    while explorer.solution is None:
        explorer.advance()
    one = SEARCH.space("1-1", 1, 1)
    demo = Demo("mario", "1-1", dict(one.facts), tuple(explorer.solution), "")
    for _ in play(one, demo):
        pass
    demo = Demo(demo.task, demo.goal, demo.facts, demo.decisions, one.digest(0))
    assert verify(SEARCH.space("1-1", 1, 1), demo)
    starts = starts_along(SEARCH.space("1-1", 1, 1), demo, 20)
    games = GameFactory(OPTIONS, find_rom(STAND_IN).cartridge)(len(starts))
    games.reset(np.arange(len(starts)), np.zeros(len(starts), np.int64), list(starts))
    assert (np.diff(games.memory.x) > 0).mean() > 0.8


def test_a_loaded_game_is_over_no_more() -> None:
    space = StageSpace(OPTIONS, STAND_IN, "1-1", 2, 1)
    space.begin()
    saved = space.save(0)
    sight = space.step(np.array([0, 0]))
    while not sight.over[0]:
        sight = space.step(np.array([5, 5]))
    space.load(0, saved)
    assert not space.step(np.array([0, 0])).over[0]


@pytest.mark.parametrize(
    ("address", "value"),
    [
        (ram_at.AREA_OFFSET, 3),
        (ram_at.AREA_POINTER, 0x65),
        (ram_at.PAGE, 7),
        (ram_at.PLAYER_Y, 0x80),
        (ram_at.MAZE_RIGHT, 1),
        (ram_at.MAZE_PASSED, 2),
        (ram_at.MAZE_AHEAD, 4),
        (ram_at.FLOAT_STATE, 1),
        (ram_at.SPEED_X, 40),
    ],
)
def test_a_cell_is_another_where_the_game_is_in_another_state(address: int, value: int) -> None:
    ram = np.zeros((2, 2048), np.uint8)
    ram[:, ram_at.SCREENS_DOWN] = 1
    ram[1, address] = value
    first, second = stage_cells(ram).tolist()
    assert first != second


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["1-1", "4-4"])
def test_stages_of_the_game_are_solved(stage: str) -> None:
    game_or_skip()
    space = stage_search(GameOptions(), "").space(stage, 192, 2)
    explorer = Explorer(space, Seeds(0).generator("explore", stage))
    explorer.begin()
    while explorer.solution is None:
        explorer.advance()
    assert explorer.steps < 300_000
