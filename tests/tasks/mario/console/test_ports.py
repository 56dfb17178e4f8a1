"""What a program reads and writes between its memory and its cartridge, as documented."""

from __future__ import annotations

import numpy as np
import pytest

from longhaul.tasks.mario.console import layout
from longhaul.tasks.mario.console.consoles import Consoles
from longhaul.tasks.mario.console.game import Cartridge, Mirroring
from longhaul.tasks.mario.console.standin_rom import assemble
from tests.tasks.mario.console.programs import NO_INTERRUPTS, VECTORS

PATTERNS = bytes(range(256)) * 32


def ran(
    source: str, *, mirroring: Mirroring = "vertical", pads: tuple[int, int] = (0, 0)
) -> Consoles:
    """Return a console that has run a program for a frame, from a vertical blank on."""
    program = assemble(f"begin:\n{source}\ndone: jmp done{NO_INTERRUPTS}{VECTORS}")
    consoles = Consoles(Cartridge(program.image, PATTERNS, mirroring), 1)
    consoles.registers[0, layout.DOT] = 0
    consoles.step(np.array([pads], np.uint8), draw=False)
    return consoles


def address(place: int) -> str:
    """Return the lines that set the address in video memory."""
    return f"lda #{place >> 8}\nsta $2006\nlda #{place & 0xFF}\nsta $2006\n"


def write(place: int, value: int) -> str:
    return f"{address(place)}lda #{value}\nsta $2007\n"


def read_into(place: int, count: int = 1, port: str = "$2007") -> str:
    return "".join(f"lda {port}\nsta {place + index}\n" for index in range(count))


def test_buttons_come_one_by_one_and_then_ones() -> None:
    strobe = "lda #1\nsta $4016\nlda #0\nsta $4016\n"
    source = strobe + read_into(0x10, 10, "$4016") + read_into(0x20, 10, "$4017")
    ram = ran(source, pads=(0b1010_0110, 0b0000_0001)).ram[0]
    assert [byte & 1 for byte in ram[0x10:0x1A].tolist()] == [0, 1, 1, 0, 0, 1, 0, 1, 1, 1]
    assert [byte & 1 for byte in ram[0x20:0x2A].tolist()] == [1, 0, 0, 0, 0, 0, 0, 0, 1, 1]


def test_while_the_strobe_is_held_the_first_button_is_read_again_and_again() -> None:
    ram = ran("lda #1\nsta $4016\n" + read_into(0x10, 4, "$4016"), pads=(0b1000_0001, 0)).ram[0]
    assert [byte & 1 for byte in ram[0x10:0x14].tolist()] == [1, 1, 1, 1]


def test_video_memory_is_read_one_byte_late() -> None:
    source = write(0x2100, 0x55) + "lda #$66\nsta $2007\n" + address(0x2100) + read_into(0x10, 3)
    assert ran(source).ram[0, 0x11:0x13].tolist() == [0x55, 0x66]


def test_the_palette_is_read_at_once_and_leaves_the_screen_below_it_behind() -> None:
    source = write(0x2F05, 0x77) + write(0x3F05, 0x2A) + address(0x3F05) + read_into(0x10)
    source += address(0x2000) + read_into(0x11)
    ram = ran(source).ram[0]
    assert ram[0x10] & 0x3F == 0x2A
    assert ram[0x11] == 0x77


def test_the_backdrops_of_sprites_are_those_of_the_background() -> None:
    source = "".join(write(0x3F10 + 4 * number, 0x10 + number) for number in range(4))
    source += "".join(write(0x3F01 + 4 * number, 0x20 + number) for number in range(4))
    palette = ran(source).states[0, layout.PALETTE : layout.PALETTE + 16]
    assert palette[::4].tolist() == [0x10, 0x11, 0x12, 0x13]
    assert palette[1::4].tolist() == [0x20, 0x21, 0x22, 0x23]


@pytest.mark.parametrize(
    ("mirroring", "same"), [("vertical", (0x2000, 0x2800)), ("horizontal", (0x2000, 0x2400))]
)
def test_two_screens_appear_at_four_places(mirroring: Mirroring, same: tuple[int, int]) -> None:
    source = "".join(
        write(place + 3, number) for number, place in enumerate(range(0x2000, 0x3000, 0x400), 1)
    )
    source += "".join(
        address(place + 3) + read_into(0x10 + 2 * i, 2) for i, place in enumerate(same)
    )
    ram = ran(source, mirroring=mirroring).ram[0]
    expected = 3 if mirroring == "vertical" else 2
    assert ram[0x11] == ram[0x13] == expected


def test_patterns_can_be_read_but_not_written() -> None:
    ram = ran(write(0x0123, 0xEE) + address(0x0123) + read_into(0x10, 2)).ram[0]
    assert ram[0x11] == 0x23


def test_the_address_moves_on_by_one_or_by_a_line() -> None:
    source = "lda #4\nsta $2000\n" + write(0x2000, 1) + "lda #2\nsta $2007\n"
    source += "lda #0\nsta $2000\nlda #3\nsta $2007\n"
    tables = ran(source).states[0, layout.NAMETABLES :]
    assert (tables[0], tables[32], tables[64]) == (1, 2, 3)


def test_reading_the_status_begins_a_pair_of_writes_anew() -> None:
    source = "lda #$3f\nsta $2006\nlda $2002\n" + write(0x2001, 9)
    assert ran(source).states[0, layout.NAMETABLES + 1] == 9


def test_ports_repeat_every_eight_addresses() -> None:
    source = "lda #$20\nsta $3ffe\nlda #$02\nsta $200e\nlda #8\nsta $2fff\n"
    assert ran(source).states[0, layout.NAMETABLES + 2] == 8


def test_sprites_are_written_and_read_one_by_one() -> None:
    source = "lda #$fe\nsta $2003\nlda #$ff\nsta $2004\nsta $2004\nsta $2004\n"
    source += "lda #$fe\nsta $2003\n" + read_into(0x10, 1, "$2004")
    consoles = ran(source)
    sprites = consoles.states[0, layout.OAM : layout.OAM + 256]
    assert np.flatnonzero(sprites).tolist() == [0, 254, 255]
    # Three bits of the attributes are not there.
    assert consoles.ram[0, 0x10] == 0xE3


def test_a_port_that_cannot_be_read_answers_the_last_byte_on_the_bus() -> None:
    ram = ran("lda #$5c\nsta $2003\n" + read_into(0x10, 1, "$2000") + "lda $5123\nsta $11\n").ram[0]
    assert ram[0x10] == 0x5C
    assert ram[0x11] == 0x51


def test_the_cartridge_cannot_be_written() -> None:
    source = "lda #$12\nsta $9000\nlda $9000\nsta $10\n"
    assert ran(source).ram[0, 0x10] == 0
