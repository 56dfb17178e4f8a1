"""The stand-in as a program: what it shows, and that its figures are where they belong."""

from __future__ import annotations

import numpy as np

from longhaul.tasks.mario.console.consoles import Consoles
from longhaul.tasks.mario.console.standin_rom import program, stand_in

START, RIGHT, RUN, JUMP = 0x08, 0x80, 0x82, 0x01


def hold(consoles: Consoles, buttons: int, frames: int) -> None:
    consoles.step(np.full(len(consoles), buttons, np.uint8), frames=frames, draw=False)


def in_play() -> tuple[Consoles, dict[str, int]]:
    consoles = Consoles(stand_in(), 1)
    hold(consoles, 0, 8)
    hold(consoles, START, 2)
    hold(consoles, 0, 8)
    return consoles, program().names


def test_the_title_waits_for_the_start_button() -> None:
    consoles, at = Consoles(stand_in(), 1), program().names
    hold(consoles, RIGHT, 30)
    assert consoles.ram[0, at["mode"]] == 0
    assert len(np.unique(consoles.screen(0).reshape(-1, 3), axis=0)) == 2
    hold(consoles, START, 12)
    assert consoles.ram[0, at["mode"]] == 1
    assert consoles.ram[0, at["player_state"]] == at["plays"]


def test_the_game_never_writes_outside_the_memory_it_names() -> None:
    consoles, at = in_play()
    before = consoles.ram[0].copy()
    random = np.random.default_rng(0)
    for _ in range(150):
        hold(consoles, int(random.choice([RIGHT, RUN, RUN | JUMP, RIGHT | JUMP])), 4)
    changed = np.flatnonzero(consoles.ram[0] != before)
    tiles, sprites, made = at["tiles"], at["sprites"], at["made"]
    zero_page = changed < 0x100
    stack = (changed >= 0x1C0) & (changed < 0x200)
    shown = (changed >= sprites) & (changed < sprites + 256)
    columns = (changed >= made) & (changed < at["made_place"] + 2)
    blocks = (changed >= tiles) & (changed < tiles + 416)
    figures = changed >= 0x700
    screen_x = changed == at["screen_x"]
    assert (zero_page | stack | shown | columns | blocks | figures | screen_x).all()


def test_the_status_line_stands_still_while_the_stage_scrolls() -> None:
    consoles, at = in_play()
    before = consoles.screen(0)
    edge = 0
    while edge < 24:
        # What is worked out in a frame is shown in the next one.
        edge = int(consoles.ram[0, at["edge_x"]])
        hold(consoles, RUN | JUMP, 1)
    after = consoles.screen(0)
    # Digits change; the bar that is below them does not.
    np.testing.assert_array_equal(after[25:32], before[25:32])
    ground = slice(208, 240)
    np.testing.assert_array_equal(after[ground, : 160 - edge], before[ground, edge:160])


def test_a_longer_press_jumps_higher() -> None:
    heights = []
    for frames in (2, 20):
        consoles, at = in_play()
        hold(consoles, JUMP, frames)
        lowest = 255
        for _ in range(40):
            lowest = min(lowest, int(consoles.ram[0, at["player_y"]]))
            hold(consoles, 0, 1)
        heights.append(176 - lowest)
        assert consoles.ram[0, at["player_y"]] == 176
    assert heights[1] > heights[0] + 8
    assert heights[1] >= 32


def test_running_is_faster_than_walking() -> None:
    distances = []
    for buttons in (RIGHT, RUN):
        consoles, at = in_play()
        hold(consoles, buttons, 45)
        distances.append(int(consoles.ram[0, at["low_x"]]) - 40)
    assert distances[1] > distances[0] > 20
