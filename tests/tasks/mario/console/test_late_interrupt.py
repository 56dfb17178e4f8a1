"""An interrupt asked for when the vertical blank has begun: on our console and on two others.

Super Mario Bros. asks for it at the end of its work, which now and then is not done in time. nes-py
then loses a frame of the game: it is the one play of the long comparison that parts from ours.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.console.standin_rom import assemble
from tests.tasks.mario.console.oracles.comparison import Oracle, Ours
from tests.tasks.mario.console.oracles.found import FCEUMM, NES_PY
from tests.tasks.mario.console.oracles.libretro import LibretroConsole
from tests.tasks.mario.console.oracles.nes_py import NesPyConsole
from tests.tasks.mario.console.programs import VECTORS

INTERRUPTS, AT_ONCE, FINISHED = 0x10, 0x11, 0x12
TURNS = 24
"""Of 1,286 cycles each: a frame and a thousand cycles of its vertical blank, which has 2,273."""
MOST_FRAMES = 30
LATE = assemble(
    f"""
        .org $8000
begin:  sei
        cld
        lda #0
        sta $2000
        sta $2001
        sta {INTERRUPTS}
        sta {AT_ONCE}
        sta {FINISHED}
first:  bit $2002
        bpl first
second: bit $2002
        bpl second
third:  bit $2002
        bpl third
        ldy #{TURNS}
outer:  ldx #0
inner:  dex
        bne inner
        dey
        bne outer
        lda #$80
        sta $2000
        nop
        lda {INTERRUPTS}
        sta {AT_ONCE}
        lda #1
        sta {FINISHED}
done:   jmp done
interrupt:
        inc {INTERRUPTS}
broken: rti
{VECTORS}"""
)
CARTRIDGE = Cartridge(LATE.image, bytes(8192), "vertical")


def interrupts_at_once(console: Oracle | Ours) -> int:
    """Return how many interrupts came with the instruction that asked for them."""
    for _ in range(MOST_FRAMES):
        console.step(0)
        if console.ram[FINISHED]:
            return int(console.ram[AT_ONCE])
    raise AssertionError("the program did not come to its end")


def test_an_interrupt_asked_for_in_the_blank_comes_at_once() -> None:
    assert interrupts_at_once(Ours(CARTRIDGE)) == 1


@pytest.mark.oracle
@pytest.mark.emulator
def test_it_does_on_fceumm() -> None:
    other = LibretroConsole(FCEUMM.path_or_skip(), CARTRIDGE.image())
    assert interrupts_at_once(other) == 1


@pytest.mark.oracle
@pytest.mark.emulator
def test_nes_py_forgets_it_until_the_next_blank(tmp_path: Path) -> None:
    file = tmp_path / "late.nes"
    file.write_bytes(CARTRIDGE.image())
    other = NesPyConsole(NES_PY.path_or_skip(), file)
    assert interrupts_at_once(other) == 0
    for _ in range(3):
        other.step(0)
    assert other.ram[INTERRUPTS] >= 2
    other.close()
