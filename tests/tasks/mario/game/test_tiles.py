"""The tiles around Mario, against the screen and against memory made by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from longhaul.core.env import StepBuffers
from longhaul.core.labor import bind
from longhaul.envs.native.thread_pool import Chain, run_alone
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.console.layout import SIZE
from longhaul.tasks.mario.game import memory as ram
from longhaul.tasks.mario.game.games import GameFactory
from longhaul.tasks.mario.game.options import GameOptions
from longhaul.tasks.mario.game.tiles import (
    BEHIND,
    BUMP,
    COIN,
    FOE,
    GOAL,
    HAZARD,
    LIFT,
    MARIO,
    OWN_NUMBERS,
    PIPE,
    SHAPE,
    SOLID,
    STATE_SIZE,
    Showing,
    show,
)

Planes = NDArray[np.uint8]


def world(x: int = 600, y: int = 176) -> NDArray[np.uint8]:
    """Return a console whose Mario stands at a place, all columns around him written."""
    row = np.zeros((1, SIZE), np.uint8)
    row[0, [ram.PAGE, ram.LOW_X]] = divmod(x, 256)
    row[0, ram.PLAYER_Y], row[0, ram.SCREENS_DOWN] = y, 1
    row[0, ram.SIZE_FLAG], row[0, ram.AREA_TYPE] = 1, ram.GROUND
    decoded = x // 16 + 14
    row[0, [ram.DECODED_PAGE, ram.DECODED_COLUMN]] = divmod(decoded, 16)
    return row


def shown(row: NDArray[np.uint8]) -> tuple[Planes, NDArray[np.float32]]:
    planes, numbers = np.ones((1, *SHAPE), np.uint8), np.ones((1, STATE_SIZE), np.float32)
    run_alone(Chain(bind(show, Showing(row, planes, numbers))), np.zeros(1, np.int64), 0, 1)
    return planes[0], numbers[0]


def put_tile(row: NDArray[np.uint8], x: int, y: int, tile: int) -> None:
    page, line, column = x // 256 % 2, (y - 32) // 16, x % 256 // 16
    row[0, 0x500 + 208 * page + 16 * line + column] = tile


def put_enemy(row: NDArray[np.uint8], slot: int, kind: int, x: int, y: int) -> None:
    row[0, ram.ENEMY_ACTIVE + slot] = 1
    row[0, ram.ENEMY_TYPE + slot] = kind
    row[0, [ram.ENEMY_PAGE + slot, ram.ENEMY_LOW_X + slot]] = divmod(x, 256)
    row[0, ram.ENEMY_Y + slot], row[0, ram.ENEMY_SCREENS_DOWN + slot] = y, 1


def test_mario_is_always_in_the_same_column() -> None:
    for x in (40, 255, 256, 600, 3161):
        planes, _ = shown(world(x))
        assert np.argwhere(planes[MARIO]).tolist() == [[10, BEHIND]]


@pytest.mark.parametrize("x", [500, 512, 600, 760])
def test_tiles_are_shown_where_they_are_over_the_border_of_pages(x: int) -> None:
    row = world(x)
    ahead = (x + 8) // 16 * 16 + 3 * 16
    put_tile(row, ahead, 208, 0x54)
    put_tile(row, ahead, 96, 0xC1)
    put_tile(row, ahead, 80, 0xC2)
    put_tile(row, ahead, 64, 0x25)
    put_tile(row, ahead, 48, 0x11)
    planes, _ = shown(row)
    column = BEHIND + 3
    found = {
        plane: np.argwhere(planes[plane]).tolist() for plane in (SOLID, BUMP, COIN, GOAL, PIPE)
    }
    assert found == {
        SOLID: [[1, column], [4, column], [11, column]],
        BUMP: [[4, column]],
        COIN: [[3, column]],
        GOAL: [[2, column]],
        PIPE: [[1, column]],
    }


def test_columns_the_game_has_not_written_yet_are_empty() -> None:
    row = world(600)
    row[0, ram.TILES : ram.TILES + 2 * ram.TILE_PAGE] = 0x54
    planes, _ = shown(row)
    # The map is written up to 14 tiles ahead of x; the window ends 11 tiles ahead.
    assert planes[SOLID].all()
    row[0, [ram.DECODED_PAGE, ram.DECODED_COLUMN]] = divmod(600 // 16 + 4, 16)
    planes, _ = shown(row)
    assert planes[SOLID, :, : BEHIND + 3].all()
    assert not planes[SOLID, :, BEHIND + 5 :].any()


def test_enemies_hazards_and_lifts_have_planes_of_their_own() -> None:
    row = world(600)
    put_enemy(row, 0, 0x06, 600 + 48, 184)
    put_enemy(row, 1, 0x12, 600 + 80, 184)
    put_enemy(row, 2, 0x2B, 600 + 112, 120)
    planes, numbers = shown(row)
    assert np.argwhere(planes[FOE]).tolist() == [[10, BEHIND + 3]]
    assert np.argwhere(planes[HAZARD]).tolist() == [[10, BEHIND + 5]]
    assert len(np.argwhere(planes[LIFT])) == 2
    assert numbers[OWN_NUMBERS : OWN_NUMBERS + 3].tolist() == [1.0, 48 / 128, 8 / 128]


def test_bowser_is_two_tiles_wide_and_high() -> None:
    row = world(600)
    put_enemy(row, 0, ram.BOWSER, 560 + 96, 144)
    assert np.argwhere(shown(row)[0][HAZARD]).tolist() == [[7, 7], [7, 8], [8, 7], [8, 8]]


def test_while_swimming_nothing_can_be_stomped_on() -> None:
    row = world(600)
    put_enemy(row, 0, 0x06, 648, 184)
    row[0, ram.AREA_TYPE] = ram.WATER
    planes, _ = shown(row)
    assert not planes[FOE].any()
    assert planes[HAZARD].any()


def test_flames_count_as_hazards_unless_mario_threw_them() -> None:
    row = world(600)
    row[0, [ram.EDGE_PAGE, ram.EDGE_LOW_X]] = divmod(500, 256)
    row[0, ram.AREA_TYPE] = ram.CASTLE
    sprite = ram.SPRITES + 4 * 7
    row[0, sprite : sprite + 4] = 120, 0x64, 0, 150
    assert np.argwhere(shown(row)[0][HAZARD]).tolist() == [[5, BEHIND + 2]]
    row[0, ram.FIREBALL_STATE] = 1
    row[0, ram.FIREBALL_LOW_X], row[0, ram.FIREBALL_Y] = (500 + 150) % 256, 120
    assert not shown(row)[0][HAZARD].any()


def test_random_memory_is_shown_without_leaving_the_planes() -> None:
    generator = np.random.default_rng(4)
    for _ in range(200):
        row = generator.integers(0, 256, (1, SIZE), np.uint8)
        planes, numbers = shown(row)
        assert set(np.unique(planes)) <= {0, 128, 255}
        assert np.isfinite(numbers).all()
        assert np.abs(numbers).max() <= 300


@pytest.mark.emulator
def test_the_ground_of_the_first_stage_is_solid_and_the_sky_is_not(cartridge: Cartridge) -> None:
    factory = GameFactory(GameOptions(), cartridge)
    games, slots = factory(1), StepBuffers.allocate(factory.spec, 1)
    games.bind(slots)
    games.reset(np.arange(1), np.zeros(1, np.int64), [None])
    for _ in range(10):
        games.step(0, 1, np.array([3]))
    planes = slots.obs["tiles"][0]
    assert planes[SOLID, 11:].all()
    assert not planes[SOLID, 8:11].any()
    # Five bricks and question blocks in a row are what everybody remembers of it.
    assert planes[BUMP, 7].any()
