"""The game on our core against figures measured with another one."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from longhaul.tasks.mario.console.consoles import Consoles
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.game.memory import STAGE_NUMBER, Memory, facts
from longhaul.tasks.mario.game.stages import Stage
from longhaul.tasks.mario.game.starts import stage_start
from longhaul.tasks.mario.rom import packaged_rom

pytestmark = pytest.mark.emulator

RIGHT_B = np.array([[0x82, 0]], np.uint8)


def test_holding_right_and_b_runs_into_the_first_enemy_at_frame_105(cartridge: Cartridge) -> None:
    console = Consoles(cartridge, 1)
    console.states[0] = stage_start(cartridge, Stage(1, 1))
    memory = Memory(console.ram)
    start = facts(console.ram[0])
    assert (start.x_pos, start.y_pos, start.time, start.life) == (40, 176, 400, 2)
    x = []
    while not memory.dying[0]:
        console.step(RIGHT_B, draw=False)
        x.append(int(memory.x[0]))
    # Every fourth frame from the third on: the third frame is the last one at the start.
    assert x[2::4][:8] == [40, 43, 47, 53, 60, 70, 81, 93]
    steps = np.diff(x[30::4])
    assert (steps[:-1] == 12).all()
    assert (len(x), x[-1]) == (105, 315)


def test_a_start_is_the_same_every_time_it_is_made(cartridge: Cartridge) -> None:
    first = stage_start(cartridge, Stage(1, 1))
    stage_start.cache_clear()
    again = stage_start(cartridge, Stage(1, 1))
    assert first is not again
    np.testing.assert_array_equal(first, again)
    assert first[STAGE_NUMBER] == 0


def test_the_start_of_the_first_stage_is_the_recorded_one(cartridge: Cartridge) -> None:
    """Where enemies are depends on the frame: this is the state the golden figures hold for."""
    if packaged_rom() is None:
        pytest.skip("no ROM: the recorded state is of the copy in gym-super-mario-bros")
    ram = stage_start(cartridge, Stage(1, 1))[:2048]
    outside_stack = np.concatenate([ram[:0x100], ram[0x200:]])
    digest = hashlib.sha256(outside_stack.tobytes()).hexdigest()
    assert digest == "5df143cb82be2c681d2c6ba751e892ba304876f0a5ea12bbbeace3a9bb27dbaa"
