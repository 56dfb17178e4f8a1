"""Reading the game's memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from longhaul.tasks.mario.game.memory import (
    CLOCK_DIGITS,
    COINS,
    LIVES,
    LOW_X,
    PAGE,
    PLAYER_Y,
    SCORE_DIGITS,
    SCREENS_DOWN,
    SPEED_X,
    Bytes,
    Memory,
    facts,
)


def memories(count: int = 2) -> Bytes:
    return np.zeros((count, 2048), np.uint8)


def test_places_beyond_a_byte_are_whole_numbers() -> None:
    ram = memories()
    ram[0, [PAGE, LOW_X]] = 12, 89
    ram[1, [PAGE, LOW_X]] = 255, 255
    x = Memory(ram).x
    assert x.dtype == np.int64
    assert x.tolist() == [3161, 65535]


def test_the_reader_sees_what_is_written_later() -> None:
    ram = memories()
    memory = Memory(ram)
    assert memory.clock.tolist() == [0, 0]
    ram[1, CLOCK_DIGITS : CLOCK_DIGITS + 3] = 4, 0, 1
    assert memory.clock.tolist() == [0, 401]


def sees_what_is_written_later(read: Callable[[Bytes], Memory]) -> bool:
    ram = memories()
    memory = read(ram)
    ram[:, PAGE] = 1
    return bool((memory.x == 256).all())


def test_a_reader_of_a_copy_would_be_found_out() -> None:
    assert sees_what_is_written_later(Memory)
    assert not sees_what_is_written_later(lambda ram: Memory(ram.copy()))


def test_bytes_with_a_sign_are_read_with_it() -> None:
    ram = memories()
    ram[0, SPEED_X], ram[1, SPEED_X] = 40, 256 - 40
    assert Memory(ram).speed_x.tolist() == [40, -40]


def test_lines_go_on_above_and_below_the_screen() -> None:
    ram = memories(3)
    ram[:, SCREENS_DOWN] = 0, 1, 2
    ram[:, PLAYER_Y] = 250, 176, 10
    assert Memory(ram).y.tolist() == [-6, 176, 266]


def test_the_score_has_six_digits() -> None:
    ram = memories()
    ram[0, SCORE_DIGITS : SCORE_DIGITS + 6] = 0, 1, 2, 3, 5, 0
    assert Memory(ram).score.tolist() == [12350, 0]


def test_facts_are_plain_numbers() -> None:
    ram = memories()[0]
    ram[LIVES], ram[COINS] = 255, 99
    told = facts(ram)
    assert (told.life, told.coins, told.world, told.stage) == (255, 99, 1, 1)
    for value in (told.x_pos, told.score, told.time, told.player_state):
        assert type(value) is int
    assert type(told.flag_get) is bool
