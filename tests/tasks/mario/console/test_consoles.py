from __future__ import annotations

import itertools

import numpy as np
import pytest

from longhaul.core.errors import ConfigError
from longhaul.envs.native.thread_pool import RangePool
from longhaul.tasks.mario.console import layout
from longhaul.tasks.mario.console.consoles import Bytes, Consoles
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.console.picture import Picture
from longhaul.tasks.mario.console.standin_rom import assemble, stand_in

COUNT = 64


def in_play(count: int, picture: Picture | None = None) -> Consoles:
    """Return consoles that have begun to play, seven different moments among them."""
    consoles = Consoles(stand_in(), count, picture)
    for frame in range(30):
        consoles.step(np.full(count, 8 if frame % 2 else 0, np.uint8), draw=False)
    for frame in range(7):
        runs = np.arange(count) % 7 > frame
        consoles.step(np.where(runs, np.uint8(0x80), np.uint8(0)), draw=False)
    return consoles


def presses(steps: int, count: int, seed: int) -> Bytes:
    random = np.random.default_rng(seed)
    return random.choice(np.array([0, 0x80, 0x81, 0x82, 0x83, 0x41], np.uint8), (steps, count))


def played(threads: int, splits: int = 1) -> Consoles:
    consoles = in_play(COUNT)
    pool = RangePool(COUNT, threads)
    for buttons in presses(6, COUNT, seed=1):

        def step(begin: int, end: int, buttons: Bytes = buttons) -> None:
            borders = np.linspace(begin, end, splits + 1).astype(int).tolist()
            for first, last in itertools.pairwise(borders):
                consoles.step(buttons, frames=4, begin=first, end=last)

        pool.run(step)
    pool.close()
    return consoles


def test_threads_and_splits_change_nothing() -> None:
    whole = in_play(COUNT)
    for buttons in presses(6, COUNT, seed=1):
        whole.step(buttons, frames=4)
    for other in (played(1), played(2), played(2, splits=5), played(1, splits=COUNT)):
        np.testing.assert_array_equal(other.states, whole.states)
        np.testing.assert_array_equal(other.pictures, whole.pictures)


def test_consoles_differ_only_by_what_is_pressed() -> None:
    consoles = Consoles(stand_in(), 3)
    for buttons in presses(60, 1, seed=2):
        consoles.step(np.repeat(buttons, 3), frames=2)
    assert (consoles.states == consoles.states[0]).all()
    consoles.step(np.array([8, 0, 0], np.uint8), frames=2)
    assert (consoles.states[1] == consoles.states[2]).all()
    assert (consoles.states[0] != consoles.states[1]).any()


def test_a_copied_row_goes_on_in_the_same_way() -> None:
    consoles = in_play(2)
    saved = consoles.states[0].copy()
    buttons = presses(20, 2, seed=3)
    for row in buttons:
        consoles.step(row, frames=3)
    wanted = consoles.states[0].copy()
    consoles.states[0] = saved
    for row in buttons:
        consoles.step(row, frames=3)
    np.testing.assert_array_equal(consoles.states[0], wanted)


def test_drawing_changes_nothing_but_the_pictures() -> None:
    drawn, blind = in_play(4), in_play(4)
    for buttons in presses(40, 4, seed=4):
        drawn.step(buttons, frames=2)
        drawn.screen(1)
        blind.step(buttons, frames=2, draw=False)
    np.testing.assert_array_equal(drawn.states, blind.states)
    assert drawn.pictures.any()
    assert not blind.pictures.any()


def test_frames_may_be_run_one_by_one_or_together() -> None:
    together, single = in_play(2), in_play(2)
    together.step(np.array([0x81, 0x80], np.uint8), frames=9)
    for _ in range(9):
        single.step(np.array([0x81, 0x80], np.uint8))
    np.testing.assert_array_equal(together.states, single.states)
    np.testing.assert_array_equal(together.pictures[:, -1], single.pictures[:, -1])


def test_reset_keeps_the_memory_and_power_on_clears_it() -> None:
    consoles = in_play(2)
    consoles.ram[:, 0x7FF] = 77
    rows = np.array([0])
    consoles.reset(rows)
    assert consoles.ram[0, 0x7FF] == 77
    vector = stand_in().prg[0x7FFC] | stand_in().prg[0x7FFD] << 8
    assert consoles.registers[0, layout.PC] == vector
    consoles.power_on(rows)
    assert not consoles.ram[0].any()
    assert consoles.ram[1, 0x7FF] == 77


@pytest.mark.parametrize(
    ("buttons", "keywords"),
    [
        (np.zeros(3, np.uint8), {}),
        (np.zeros((2, 2), np.int64), {}),
        (np.zeros((2, 3), np.uint8), {}),
        (np.zeros(2, np.uint8), {"frames": 0}),
        (np.zeros(2, np.uint8), {"begin": 1, "end": 3}),
        (np.zeros(2, np.uint8), {"begin": -1}),
    ],
)
def test_a_step_that_makes_no_sense_is_refused(buttons: Bytes, keywords: dict[str, int]) -> None:
    consoles = Consoles(stand_in(), 2)
    with pytest.raises(ConfigError):
        consoles.step(buttons, **keywords)  # type: ignore[arg-type]  # that is the point


def test_a_cpu_that_stopped_does_not_stop_the_picture() -> None:
    stops = assemble(".org $8000\n.byte $02\n.org $fffa\n.word $8000, $8000, $8000")
    consoles = Consoles(Cartridge(stops.image, bytes(8192), "vertical"), 1)
    consoles.step(np.zeros(1, np.uint8), frames=5)
    assert consoles.registers[0, layout.FRAMES] == 5
    assert consoles.registers[0, layout.JAMMED] > 0


def test_many_consoles_can_be_made_and_reset() -> None:
    for _ in range(20):
        consoles = Consoles(stand_in(), COUNT)
        consoles.step(np.zeros(COUNT, np.uint8), frames=2, draw=False)
        consoles.reset(np.arange(COUNT))
        assert (consoles.registers[:, layout.FRAMES] == 2).all()
