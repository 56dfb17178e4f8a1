"""When things happen: interrupts, the flags of $2002, copies of sprites, odd frames, waiting."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from longhaul.tasks.mario.console import layout
from longhaul.tasks.mario.console.consoles import Consoles
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.console.standin_rom import Program, assemble
from tests.tasks.mario.console.programs import DELAY, NO_INTERRUPTS, VECTORS, polling

TURNS = 23
DELAY_CYCLES = TURNS * 1286 - 1
READ_CYCLE = 3
"""Cycles from the beginning of `lda $2002` to the one in which it reads."""
RACE = assemble(
    f"""
{DELAY}
        lda $2002
        sta $10
        lda $2002
        sta $11
done:   jmp done
interrupt:
        inc $12
broken: rti
{VECTORS}"""
)


def inserted(program: Program, count: int) -> Consoles:
    """Return consoles with a program that begin at a vertical blank."""
    consoles = Consoles(Cartridge(program.image, bytes(range(256)) * 32, "vertical"), count)
    consoles.registers[:, layout.DOT] = 0
    return consoles


def wait(consoles: Consoles, frames: int = 1) -> None:
    consoles.step(np.zeros(len(consoles), np.uint8), frames=frames, draw=False)


def test_a_read_at_the_blank_hides_it_as_documented() -> None:
    """One dot early: never set. At once or one late: read, no interrupt. Else nothing special."""
    offsets = np.arange(-12, 7)
    consoles = inserted(RACE, len(offsets))
    consoles.registers[:, layout.Y] = TURNS
    consoles.registers[:, layout.CONTROL] = 0x80
    consoles.registers[:, layout.BLANK_SEEN] = 1  # no interrupt now
    read_at = 3 * (DELAY_CYCLES + READ_CYCLE)
    consoles.registers[:, layout.DOT] = layout.FRAME_DOTS + offsets - read_at
    wait(consoles, frames=2)
    for row, offset in enumerate(offsets.tolist()):
        first, later, interrupts = (int(byte) for byte in consoles.ram[row, 0x10:0x13])
        is_hidden = -1 <= offset <= 1
        assert first & 0x80 == (0x80 if offset >= 0 else 0), offset
        assert later & 0x80 == (0x80 if offset < -1 else 0), offset
        assert interrupts == (0 if is_hidden else 1), offset


def test_allowing_interrupts_in_the_blank_raises_one_after_the_next_instruction() -> None:
    program = assemble(
        f"""
begin:  lda #$80
        sta $2000
        inc $20
        inc $21
        lda #0                  ; forbidden and allowed again: another one
        sta $2000
        lda #$80
        sta $2000
        inc $22
        inc $23
done:   jmp done
interrupt:
        ldx $10
        lda $20
        sta $30,x
        lda $21
        sta $31,x
        lda $22
        sta $32,x
        lda $23
        sta $33,x
        inc $10
        inc $10
        inc $10
        inc $10
broken: rti
{VECTORS}"""
    )
    consoles = inserted(program, 1)
    wait(consoles)
    assert consoles.ram[0, 0x30:0x38].tolist() == [1, 0, 0, 0, 1, 1, 1, 0]


def test_an_interrupt_takes_seven_cycles() -> None:
    program = assemble(f"begin: jmp begin\ninterrupt: .byte 2\nbroken: rti{VECTORS}")
    consoles = inserted(program, 1)
    consoles.registers[0, layout.CONTROL] = 0x80
    wait(consoles)
    stop_cycles = 2
    assert consoles.registers[0, layout.JAMMED] == 3 * (7 + stop_cycles)


def cycles_with_copy(padding: list[str], parity: int) -> int:
    """Return the cycles of a program that copies sprites."""
    text = "\n".join(["begin:", *padding, "lda #2", "sta $4014", ".byte 2"])
    consoles = inserted(assemble(f"{text}{NO_INTERRUPTS}{VECTORS}"), 1)
    consoles.registers[0, layout.PARITY] = parity
    wait(consoles)
    return int(consoles.registers[0, layout.JAMMED]) // 3


def test_copying_sprites_takes_513_cycles_or_one_more_to_fall_into_step() -> None:
    around = 2 + 4 + 2
    taken = {
        (parity, odd): cycles_with_copy(["lda $10"] if odd else [], parity) - around - 3 * odd
        for parity, odd in itertools.product((0, 1), (0, 1))
    }
    assert set(taken.values()) == {513, 514}
    # Two programs that are a cycle apart wait a cycle more or less: both end in step.
    assert taken[0, 0] != taken[0, 1]
    assert taken[0, 0] == taken[1, 1]
    assert taken[0, 1] == taken[1, 0]


def test_sprites_are_copied_from_where_the_address_points_on() -> None:
    program = assemble(
        f"""
begin:  lda #$f0
        sta $2003
        lda #2
        sta $4014
done:   jmp done
interrupt:
broken: rti
{VECTORS}"""
    )
    consoles = inserted(program, 1)
    page = np.random.default_rng(0).integers(0, 256, 256, dtype=np.uint8)
    consoles.ram[0, 0x200:0x300] = page
    wait(consoles)
    found = consoles.states[0, layout.OAM : layout.OAM + 256]
    np.testing.assert_array_equal(found, np.roll(page, 0xF0))


@pytest.mark.parametrize(
    ("mask", "lengths"), [(0x00, (0, 0, 0, 0)), (0x08, (0, 1, 0, 1)), (0x10, (0, 1, 0, 1))]
)
def test_every_other_frame_is_a_dot_shorter_while_drawing(
    mask: int, lengths: tuple[int, ...]
) -> None:
    idle = assemble(f"begin: jmp begin{NO_INTERRUPTS}{VECTORS}")
    consoles = inserted(idle, 1)
    consoles.registers[0, layout.MASK] = mask
    shortened = []
    for _ in lengths:
        wait(consoles)
        shortened.append(layout.FRAME_DOTS - int(consoles.registers[0, layout.FRAME_END]))
    assert tuple(shortened) == lengths


LOOPS = {
    "bit bpl": "bit {port}\nbpl wait",
    "bit bmi": "bit {port}\nbmi wait",
    "bit bvc": "bit {port}\nbvc wait",
    "bit bvs": "bit {port}\nbvs wait",
    "lda bpl": "lda {port}\nbpl wait",
    "lda bmi": "lda {port}\nbmi wait",
    "lda and beq": "lda {port}\nand #$40\nbeq wait",
    "lda and bne": "lda {port}\nand #$40\nbne wait",
    "overflow": "lda {port}\nand #$20\nbeq wait",
}


def waited(port: str, loop: str, late: NDArray[np.int64]) -> Consoles:
    """Return consoles that begin to wait at some dots and stop when they have what they want."""
    consoles = inserted(polling(loop.format(port=port)), len(late))
    consoles.registers[:, layout.DOT] = late
    consoles.registers[:, layout.MASK] = 0x1E
    consoles.registers[:, layout.OLD_FLAGS] = 0x60
    random = np.random.default_rng(0)
    scene = random.integers(0, 256, (len(late), 2048 + 256), dtype=np.uint8)
    consoles.states[:, layout.NAMETABLES : layout.NAMETABLES + 2304] = scene
    wait(consoles)
    return consoles


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_that_waits_ends_when_it_would_turn_by_turn(name: str) -> None:
    """The same port under an address that nobody looks for is read in earnest, every turn."""
    late = np.arange(0, 4000, 61)
    quick, literal = (waited(port, LOOPS[name], late) for port in ("$2002", "$200a"))
    for register in (layout.JAMMED, layout.DOT, layout.A, layout.P, layout.PC, layout.VBLANK):
        np.testing.assert_array_equal(quick.registers[:, register], literal.registers[:, register])
