"""One frame of one console, from one vertical blank to the next."""

from __future__ import annotations

import numpy as np

from longhaul.core.env import Array
from longhaul.core.native import integer, kernel
from longhaul.tasks.mario.console import layout
from longhaul.tasks.mario.console.beam import begin_picture, finish_picture
from longhaul.tasks.mario.console.cpu import execute_carefully
from longhaul.tasks.mario.console.game import Game, Machine
from longhaul.tasks.mario.console.layout import (
    AFTER_NEXT,
    AT_ONCE,
    BLANK_SEEN,
    CONTROL,
    DEADLINE,
    DOT,
    FIRST_REGISTER,
    FRAME_END,
    FRAMES,
    HIDDEN,
    JAMMED,
    LINE_ZERO,
    NEVER,
    NMI,
    NOTHING,
    OLD_FLAGS,
    ORIGIN,
    OVERFLOW_DOT,
    PAD_1,
    PAD_2,
    PARITY,
    PC,
    REGISTER_COUNT,
    SCROLL_TAKEN,
    SP,
    SPRITE_ZERO_DOT,
    UNSEEN,
    VBLANK,
    P,
)
from longhaul.tasks.mario.console.machine_code import run_native

NMI_VECTOR = 0x7FFA
"""In the program, which begins at $8000."""
NMI_CYCLES = 7
INTERRUPTS = 0x80
HIT_FLAG, OVERFLOW_FLAG = 0x40, 0x20
NO_INTERRUPTS = 0x04


def _allowed_bits() -> Array:
    """Return which bits each register may have set when a frame begins."""
    bits = {
        layout.A: 0xFF, layout.X: 0xFF, layout.Y: 0xFF, SP: 0xFF, P: 0xFF, PC: 0xFFFF,
        JAMMED: 0x7FFFFFFF, DOT: 0xFFF, NMI: 3, ORIGIN: 0, PARITY: 1, layout.ODD_FRAME: 1,
        FRAMES: 0x7FFFFFFF, CONTROL: 0xFF, layout.MASK: 0xFF, BLANK_SEEN: 3, OLD_FLAGS: 0x60,
        layout.V: 0x7FFF, layout.T: 0x7FFF, layout.FINE_X: 7, layout.SECOND_WRITE: 1,
        layout.READ_BUFFER: 0xFF, layout.OAM_ADDRESS: 0xFF, layout.OPEN_BUS: 0xFF,
        layout.STROBE: 1, layout.SHIFT_1: 0xFF, layout.SHIFT_2: 0xFF,
    }  # fmt: skip
    registers = range(FIRST_REGISTER, FIRST_REGISTER + REGISTER_COUNT)
    return np.array([bits.get(register, 0) for register in registers], np.int32)


ALLOWED = _allowed_bits()


@kernel
def _interrupt(row: Array, registers: Array, game: Game) -> None:
    """Let the CPU begin the program's answer to the vertical blank."""
    pc, sp = integer(registers[PC]), integer(registers[SP])
    row[0x100 | sp] = pc >> 8
    row[0x100 | (sp - 1) & 0xFF] = pc & 0xFF
    row[0x100 | (sp - 2) & 0xFF] = registers[P] & ~0x10 | 0x20
    registers[SP] = (sp - 3) & 0xFF
    registers[P] |= NO_INTERRUPTS
    registers[PC] = integer(game.prg[NMI_VECTOR]) | integer(game.prg[NMI_VECTOR + 1]) << 8
    registers[DOT] += NMI_CYCLES * 3


@kernel
def _run_until(row: Array, registers: Array, machine: Machine, event: int) -> None:
    """Run the CPU until `event`, with the interrupts that become due."""
    while registers[DOT] < event:
        if registers[JAMMED]:
            registers[DOT] = event
            return
        if registers[NMI] == AT_ONCE:
            registers[NMI] = NOTHING
            _interrupt(row, registers, machine.game)
        one_more = registers[NMI] == AFTER_NEXT
        registers[DEADLINE] = registers[DOT] + 1 if one_more else event
        while registers[DOT] < registers[DEADLINE]:
            run_native(machine.game.code, row.ctypes.data)
            if registers[DOT] < registers[DEADLINE]:
                execute_carefully(row, registers, machine)
        if one_more and registers[NMI] == AFTER_NEXT:
            registers[NMI] = AT_ONCE


@kernel
def _begin_blank(registers: Array, pad_1: int, pad_2: int) -> None:
    """Raise the flag of the vertical blank, and the interrupt if it is wanted."""
    for register in range(REGISTER_COUNT):
        # Whatever a row was restored from, nothing in it may lead outside the row.
        registers[FIRST_REGISTER + register] &= ALLOWED[register]
    registers[PAD_1] = pad_1
    registers[PAD_2] = pad_2
    registers[ORIGIN] = registers[DOT]
    registers[FRAME_END] = NEVER
    registers[LINE_ZERO] = NEVER
    registers[SPRITE_ZERO_DOT] = NEVER
    registers[OVERFLOW_DOT] = NEVER
    registers[VBLANK] = 1 if registers[BLANK_SEEN] == UNSEEN else 0
    if registers[CONTROL] & INTERRUPTS and registers[BLANK_SEEN] != HIDDEN:
        registers[NMI] = AT_ONCE
    registers[BLANK_SEEN] = 0


@kernel
def _end_frame(registers: Array) -> None:
    """Set the clock back by a frame."""
    end = registers[FRAME_END]
    registers[OLD_FLAGS] = (HIT_FLAG if registers[SPRITE_ZERO_DOT] < end else 0) | (
        OVERFLOW_FLAG if registers[OVERFLOW_DOT] < end else 0
    )
    registers[PARITY] = (registers[PARITY] + (registers[DOT] - registers[ORIGIN]) // 3) & 1
    registers[DOT] -= end
    registers[FRAMES] += 1


@kernel
def run_frame(row: Array, registers: Array, machine: Machine, pad_1: int, pad_2: int) -> None:
    """Run one console for one frame with these buttons held; draw it if the canvas says so."""
    _begin_blank(registers, pad_1, pad_2)
    _run_until(row, registers, machine, integer(SCROLL_TAKEN))
    begin_picture(row, registers, machine)
    _run_until(row, registers, machine, integer(registers[FRAME_END]))
    finish_picture(row, registers, machine)
    _end_frame(registers)
