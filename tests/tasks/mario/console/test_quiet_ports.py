"""Controllers and sound in native code do what the careful step does with them."""

from __future__ import annotations

import numpy as np
import pytest

from longhaul.tasks.mario.console.consoles import Consoles
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.console.machine_code import native_program
from longhaul.tasks.mario.console.program import decode_at
from longhaul.tasks.mario.console.quiet_ports import quiet_lines
from longhaul.tasks.mario.console.standin_rom import assemble
from longhaul.tasks.mario.game.stages import Stage
from longhaul.tasks.mario.game.starts import stage_start
from tests.tasks.mario.cartridges import game_or_skip
from tests.tasks.mario.console.programs import NO_INTERRUPTS, VECTORS

READS = ("lda", "ldx", "ldy", "bit", "and", "ora", "eor", "cmp", "cpx", "cpy", "adc", "sbc")
INDEXED = ("lda", "and", "ora", "eor", "cmp", "adc", "sbc")
SILENT = (0x4000, 0x4003, 0x4013, 0x4015, 0x4017, 0x4018, 0x5A5A, 0x7FFF)


def without_native_code(consoles: Consoles) -> Consoles:
    """Let the careful step do every instruction: the code is that of an empty program."""
    consoles._games[0]["code"] = native_program(bytes(0x8000))
    return consoles


def keep(number: int) -> str:
    """Return the lines that keep registers and flags on the stack and in memory."""
    return f"php\nsta ${number & 0xFF:02x}\nstx $01\nsty $02\npla\nsta $03{number & 0xFF:02x}\n"


def everything() -> str:
    """Return a program that reads and writes these ports in every way, over and over."""
    lines = ["ldx #$ff\ntxs\nloop:\ninc $00\n"]
    for number, read in enumerate(READS):
        port = 0x4016 + number % 2
        lines.append(f"{read} ${port:04x}\n{keep(0x10 + number)}")
    for number, index in enumerate((0, 1, 2, 0x80, 0xE9, 0xEA, 0xFF)):
        lines.append(f"ldx #{index}\nldy #{index}\n")
        lines += [f"{read} $4016,x\n{read} $4017,y\n" for read in INDEXED]
        lines.append(keep(0x40 + number))
        lines.append("lda $00\nlsr a\nsta $4016\n" if number % 2 else "ldx $00\nstx $4016\n")
    for number, port in enumerate(SILENT):
        lines.append(f"sta ${port:04x}\nstx ${port:04x}\nsty ${port:04x}\n{keep(0x60 + number)}")
    lines.append("lda #0\nsta $4016\nsta $4002,x\ninc $4016\nsta $4014\n")
    return "".join(lines) + "jmp loop\n"


def test_native_code_agrees_with_the_careful_step_about_every_use_of_these_ports() -> None:
    program = assemble(f"begin:\n{everything()}{NO_INTERRUPTS}{VECTORS}")
    cartridge = Cartridge(program.image, bytes(range(256)) * 32, "vertical")
    native, careful = Consoles(cartridge, 6), without_native_code(Consoles(cartridge, 6))
    random = np.random.default_rng(3)
    for _ in range(12):
        buttons = random.integers(0, 256, (6, 2), dtype=np.uint8)
        native.step(buttons, draw=False)
        careful.step(buttons, draw=False)
        np.testing.assert_array_equal(native.states, careful.states)
    assert native.ram[:, 0].min() > 10, "the program never came to its end"


@pytest.mark.parametrize("name", ["1-1", "1-2", "2-2", "4-4", "6-3"])
def test_a_stage_goes_the_same_way_without_native_code(name: str) -> None:
    row = stage_start(game_or_skip(), Stage.parse(name))
    native, careful = Consoles(game_or_skip(), 4), Consoles(game_or_skip(), 4)
    without_native_code(careful)
    native.states[:] = careful.states[:] = row
    random = np.random.default_rng(Stage.parse(name).index)
    for _ in range(40):
        held = random.integers(0, 256, (4, 2), dtype=np.uint8)
        # Start would only pause; right and B lead to where something happens.
        buttons = held & np.uint8(0xF3) | np.array([[0], [0], [0x82], [0x83]], np.uint8)
        for consoles in (native, careful):
            consoles.step(buttons, frames=4)
        np.testing.assert_array_equal(native.states, careful.states)
        np.testing.assert_array_equal(native.pictures, careful.pictures)


@pytest.mark.parametrize(
    ("code", "is_quiet"),
    [
        ([0xBD, 0x16, 0x40], True),  # LDA $4016,X
        ([0xAC, 0x17, 0x40], True),  # LDY $4017
        ([0x8E, 0x16, 0x40], True),  # STX $4016
        ([0x8D, 0x17, 0x40], True),  # STA $4017
        ([0x8D, 0x14, 0x40], False),  # STA $4014 copies the sprites
        ([0xEE, 0x16, 0x40], False),  # INC $4016 reads and writes twice
        ([0x9D, 0x00, 0x40], False),  # STA $4000,X reads before it writes
        ([0xAD, 0x15, 0x40], False),  # LDA $4015
        ([0xBD, 0x15, 0x40], False),  # LDA $4015,X
        ([0xAD, 0x02, 0x20], False),  # LDA $2002
        ([0x8D, 0x07, 0x20], False),  # STA $2007
    ],
)
def test_only_controllers_and_sound_are_quiet(code: list[int], is_quiet: bool) -> None:  # noqa: FBT001
    located = decode_at(bytes(code) + bytes(0x8000 - len(code)), 0x8000)
    assert (quiet_lines(located) is not None) == is_quiet
