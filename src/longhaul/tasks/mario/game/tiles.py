"""What Mario has around him as planes of tiles, and what he does himself as a few numbers.

The planes are bytes, 0 or 255, of 13 rows and 16 columns. All rows of the screen are there; the
columns move with Mario, who always is in the fifth. Tiles come from the game's own map of what can
be touched; columns it has not yet written are empty. Beside it, a vector holds what tiles cannot:
speeds, places between tiles, and every enemy's own line.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from longhaul.core.env import Array
from longhaul.core.labor import Labor
from longhaul.core.native import fetch, integer, kernel
from longhaul.tasks.mario.game import memory as ram_at
from longhaul.tasks.mario.game.memory import game_stamp

PLANES = ("solid", "bump", "coin", "pipe", "goal", "foe", "hazard", "lift", "boon", "mario")
SOLID, BUMP, COIN, PIPE, GOAL, FOE, HAZARD, LIFT, BOON, MARIO = range(10)
BEHIND = 4
"""Columns shown behind Mario: what is ahead matters more."""
SHAPE = (len(PLANES), ram_at.TILE_ROWS, ram_at.TILE_COLUMNS)

OWN_NUMBERS = 26
ENEMY_NUMBERS = 8
POWER_UP_NUMBERS = 4
STATE_SIZE = OWN_NUMBERS + ENEMY_NUMBERS * ram_at.ENEMY_SLOTS + POWER_UP_NUMBERS

TILE_KIND = np.zeros((256, 5), np.uint8)
"""Which of the first five planes a tile is in."""
FOE_KIND = np.zeros(256, np.uint8)
"""The plane an enemy of a type is in, 0 for things that neither hurt nor help."""
FIRE_TILES = (0x64, 0x65)
"""Patterns of the flames of fire bars, and of Mario's own fireballs."""


def _fill_kinds() -> None:
    """Write the two tables; numbers are the game's own."""
    vine, pole, axe, coins, hidden = (0x26,), (0x24, 0x25), (0xC5,), (0xC2, 0xC3), (0x5F, 0x60)
    through = {0, *vine, *pole, *axe, *coins, *hidden}
    TILE_KIND[[tile for tile in range(256) if tile not in through], SOLID] = 255
    TILE_KIND[[0x51, 0x52, *range(0x55, 0x5F), 0xC0, 0xC1], BUMP] = 255
    TILE_KIND[list(coins), COIN] = 255
    TILE_KIND[[0x10, 0x11, 0x1C, 0x1F, 0x6B, 0x6C], PIPE] = 255
    TILE_KIND[[*pole, *axe], GOAL] = 255
    TILE_KIND[list(vine), GOAL] = 128
    FOE_KIND[[*range(0x07), 0x08, *range(0x0E, 0x12), 0x14, 0x33]] = FOE
    FOE_KIND[[0x07, 0x0A, 0x0B, 0x0C, 0x0D, 0x12, 0x15, 0x2D, *range(0x1B, 0x23)]] = HAZARD
    FOE_KIND[[*range(0x24, 0x2D), 0x32]] = LIFT
    FOE_KIND[0x2E] = BOON


_fill_kinds()
WIDE_LIFTS = (0x24, 0x2A)
"""First and last type of lifts of three tiles; the others are half as wide."""
BOWSER_TYPE = 0x2D
SHELL_STATES = 0x04
"""An enemy in such a state lies in its shell or is stunned."""


@kernel
def _byte_to_signed(value: int) -> int:
    number = integer(value)
    return number - 256 if number > 127 else number


@kernel
def _mark(planes: Array, plane: int, across: int, line: int) -> None:
    """Set the cell at pixels from the left of the window and lines of the screen."""
    if across < 0 or line < ram_at.FIRST_TILE_LINE:
        return
    column, row = across // 16, (line - ram_at.FIRST_TILE_LINE) // 16
    if column < ram_at.TILE_COLUMNS and row < ram_at.TILE_ROWS:
        planes[plane, row, column] = 255


@kernel
def _show_ground(ram: Array, planes: Array, first_column: int) -> None:
    """Write the planes of tiles."""
    decoded = integer(ram[ram_at.DECODED_PAGE]) * 16 + integer(ram[ram_at.DECODED_COLUMN])
    for column in range(ram_at.TILE_COLUMNS):
        place = first_column + column
        # The map holds two pages; before and after them it shows other parts of the area.
        if place < 0 or place >= decoded or place < decoded - 32:
            continue
        base = ram_at.TILES + (place >> 4 & 1) * ram_at.TILE_PAGE + (place & 15)
        for row in range(ram_at.TILE_ROWS):
            tile = ram[base + row * ram_at.TILE_COLUMNS]
            if tile == 0:
                continue
            for plane in range(5):
                planes[plane, row, column] = TILE_KIND[tile, plane]


@kernel
def _show_things(ram: Array, planes: Array, left: int) -> None:
    """Write the planes of what moves: enemies, lifts and power-ups."""
    for slot in range(ram_at.ENEMY_SLOTS + 1):
        if ram[ram_at.ENEMY_ACTIVE + slot] == 0 or ram[ram_at.ENEMY_SCREENS_DOWN + slot] != 1:
            continue
        kind = ram[ram_at.ENEMY_TYPE + slot]
        plane = integer(FOE_KIND[kind])
        if plane == 0:
            continue
        x = (
            integer(ram[ram_at.ENEMY_PAGE + slot]) * 256
            + integer(ram[ram_at.ENEMY_LOW_X + slot])
            - left
        )
        y = integer(ram[ram_at.ENEMY_Y + slot])
        if plane == LIFT:
            width = 48 if WIDE_LIFTS[0] <= kind <= WIDE_LIFTS[1] else 24
            for part in range(0, width, 8):
                _mark(planes, LIFT, x + part + 4, y + 4)
            continue
        if ram[ram_at.AREA_TYPE] == ram_at.WATER and plane == FOE:
            plane = HAZARD  # nothing can be stomped on while swimming
        if kind == BOWSER_TYPE:
            for part in range(4):
                _mark(planes, plane, x + 8 + 16 * (part & 1), y + 8 + 8 * (part & 2))
        else:
            _mark(planes, plane, x + 8, y + 16)


@kernel
def _show_hammers(ram: Array, planes: Array, left: int) -> None:
    """Write what hammer brothers have thrown."""
    for slot in range(ram_at.MISC_SLOTS):
        if ram[ram_at.MISC_STATE + slot] & 0x80:
            x = (
                integer(ram[ram_at.MISC_PAGE + slot]) * 256
                + integer(ram[ram_at.MISC_LOW_X + slot])
                - left
            )
            _mark(planes, HAZARD, x + 4, integer(ram[ram_at.MISC_Y + slot]) + 4)


@kernel
def _is_own_fire(ram: Array, x: int, y: int) -> bool:
    """Whether Mario threw the flame that is at this place of the screen."""
    edge = integer(ram[ram_at.EDGE_LOW_X])
    for slot in range(2):
        if ram[ram_at.FIREBALL_STATE + slot] != 0:
            across = (integer(ram[ram_at.FIREBALL_LOW_X + slot]) - edge) & 0xFF
            if abs(across - x) <= 8 and abs(integer(ram[ram_at.FIREBALL_Y + slot]) - y) <= 8:
                return True
    return False


@kernel
def _show_flames(ram: Array, planes: Array, left: int) -> None:
    """Write the flames of fire bars: they are in no slot, only among the sprites."""
    edge = integer(ram[ram_at.EDGE_PAGE]) * 256 + integer(ram[ram_at.EDGE_LOW_X])
    for sprite in range(64):
        address = ram_at.SPRITES + 4 * sprite
        tile = ram[address + 1]
        if FIRE_TILES[0] <= tile <= FIRE_TILES[1] and ram[address] < 0xEF:
            x, y = integer(ram[address + 3]), integer(ram[address])
            if not _is_own_fire(ram, x, y):
                _mark(planes, HAZARD, edge + x + 4 - left, y + 4)


@kernel
def _own_numbers(ram: Array, out: Array, x: int, y: int) -> None:
    """Write what Mario himself does, each number between about -1 and 1."""
    state = integer(ram[ram_at.FLOAT_STATE])
    held = integer(ram[ram_at.HELD_BUTTONS])
    edge = integer(ram[ram_at.EDGE_PAGE]) * 256 + integer(ram[ram_at.EDGE_LOW_X])
    clock = integer(ram[ram_at.CLOCK_DIGITS]) * 100 + integer(ram[ram_at.CLOCK_DIGITS + 1]) * 10
    out[0] = _byte_to_signed(ram[ram_at.SPEED_X]) / 40.0
    out[1] = _byte_to_signed(ram[ram_at.SPEED_Y]) / 5.0
    out[2] = 1.0 if state == 0 else 0.0
    out[3] = 1.0 if state == 1 else 0.0
    out[4] = 1.0 if state == 2 else 0.0
    out[5] = 1.0 if state == 3 else 0.0
    out[6] = 1.0 if ram[ram_at.SWIMMING] else 0.0
    out[7] = 1.0 if ram[ram_at.FACING] == 1 else -1.0
    out[8] = 1.0 if ram[ram_at.MOVING] == 1 else -1.0
    out[9] = 1.0 if ram[ram_at.SIZE_FLAG] == 0 else 0.0
    out[10] = 1.0 if ram[ram_at.POWER] >= 2 else 0.0
    out[11] = 1.0 if ram[ram_at.CROUCHING] else 0.0
    out[12] = min(integer(ram[ram_at.INVULNERABLE]), 16) / 16.0
    out[13] = min(integer(ram[ram_at.STAR]), 32) / 32.0
    out[14] = (x & 15) / 16.0
    out[15] = (y & 15) / 16.0
    out[16] = min(max(y, -32), 272) / 240.0
    out[17] = (x - edge) / 256.0
    out[18] = (clock + integer(ram[ram_at.CLOCK_DIGITS + 2])) / 400.0
    out[19] = 1.0 if held & ram_at.HELD_A else 0.0
    out[20] = 1.0 if held & ram_at.HELD_B else 0.0
    out[21] = 1.0 if ram[ram_at.SCROLL_LOCK] else 0.0
    for kind in range(4):
        out[22 + kind] = 1.0 if ram[ram_at.AREA_TYPE] == kind else 0.0


@kernel
def _enemy_numbers(ram: Array, out: Array, slot: int, x: int, y: int) -> None:
    """Write one enemy's place and speed as seen from Mario; all 0 if there is none."""
    base = OWN_NUMBERS + slot * ENEMY_NUMBERS
    for index in range(ENEMY_NUMBERS):
        out[base + index] = 0.0
    kind = integer(FOE_KIND[ram[ram_at.ENEMY_TYPE + slot]])
    if ram[ram_at.ENEMY_ACTIVE + slot] == 0 or kind == 0:
        return
    there = integer(ram[ram_at.ENEMY_PAGE + slot]) * 256 + integer(ram[ram_at.ENEMY_LOW_X + slot])
    down = (integer(ram[ram_at.ENEMY_SCREENS_DOWN + slot]) - 1) * 256 + integer(
        ram[ram_at.ENEMY_Y + slot]
    )
    out[base] = 1.0
    out[base + 1] = min(max((there - x) / 128.0, -2.0), 2.0)
    out[base + 2] = min(max((down - y) / 128.0, -2.0), 2.0)
    if kind in (FOE, HAZARD):
        # Lifts and fire bars keep other things where the speeds are.
        out[base + 3] = _byte_to_signed(ram[ram_at.ENEMY_SPEED_X + slot]) / 40.0
        out[base + 4] = _byte_to_signed(ram[ram_at.ENEMY_SPEED_Y + slot]) / 5.0
    out[base + 5] = 1.0 if kind == FOE else 0.0
    out[base + 6] = 1.0 if kind == HAZARD else 0.0
    out[base + 7] = 1.0 if ram[ram_at.ENEMY_STATE + slot] & SHELL_STATES else 0.0


@kernel
def _power_up_numbers(ram: Array, out: Array, x: int, y: int) -> None:
    base = OWN_NUMBERS + ram_at.ENEMY_SLOTS * ENEMY_NUMBERS
    for index in range(POWER_UP_NUMBERS):
        out[base + index] = 0.0
    slot = ram_at.POWER_UP_SLOT
    if ram[ram_at.ENEMY_ACTIVE + slot] == 0:
        return
    there = integer(ram[ram_at.ENEMY_PAGE + slot]) * 256 + integer(ram[ram_at.ENEMY_LOW_X + slot])
    out[base] = 1.0
    out[base + 1] = min(max((there - x) / 128.0, -2.0), 2.0)
    out[base + 2] = min(max((integer(ram[ram_at.ENEMY_Y + slot]) - y) / 128.0, -2.0), 2.0)
    out[base + 3] = integer(ram[ram_at.POWER_UP_KIND]) / 3.0


@kernel
def show_one(ram: Array, planes: Array, numbers: Array) -> None:
    """Write what one Mario has around him."""
    x = integer(ram[ram_at.PAGE]) * 256 + integer(ram[ram_at.LOW_X])
    y = (integer(ram[ram_at.SCREENS_DOWN]) - 1) * 256 + integer(ram[ram_at.PLAYER_Y])
    first_column = (x + 8) // 16 - BEHIND
    left = first_column * 16
    planes[:] = 0
    _show_ground(ram, planes, first_column)
    _show_things(ram, planes, left)
    _show_hammers(ram, planes, left)
    _show_flames(ram, planes, left)
    _mark(planes, MARIO, BEHIND * 16, y + 24)
    if ram[ram_at.SIZE_FLAG] == 0 and ram[ram_at.CROUCHING] == 0:
        _mark(planes, MARIO, BEHIND * 16, y + 8)
    _own_numbers(ram, numbers, x, y)
    for slot in range(ram_at.ENEMY_SLOTS):
        _enemy_numbers(ram, numbers, slot, x, y)
    _power_up_numbers(ram, numbers, x, y)


class Showing(NamedTuple):
    """What is read and written to show games."""

    consoles: Array  # [N, SIZE] uint8, whose memory comes first
    planes: Array  # [N, *SHAPE] uint8
    numbers: Array  # [N, STATE_SIZE] float32


def _build(stamp: int) -> Labor:
    def show(pointer: Any, index: int, member: int) -> int:
        """Write what a game shows."""
        _ = stamp
        showing = fetch(pointer)
        show_one(showing.consoles[index], showing.planes[index], showing.numbers[index])
        return 0

    return show


show = _build(game_stamp())
