"""Loops that only wait for a flag of the video chip, taken in one go with exact arithmetic."""

from __future__ import annotations

from longhaul.core.env import Array
from longhaul.envs.nes.layout import DEADLINE, FLAGS_CLEARED, OVERFLOW_DOT, SPRITE_ZERO_DOT
from longhaul.envs.nes.native import integer, kernel

BLANK_FLAG = 0x80
AND_IMMEDIATE = 0x29
BIT_ABSOLUTE = 0x2C
LDA_ABSOLUTE = 0xAD
BPL, BMI, BVC, BVS, BNE, BEQ = 0x10, 0x30, 0x50, 0x70, 0xD0, 0xF0


@kernel
def _is_taken(branch: int, value: int) -> bool:
    """Tell whether a branch after `value` is taken, as far as flags of $2002 are concerned."""
    if branch == BPL:
        return value & 0x80 == 0
    if branch == BMI:
        return value & 0x80 != 0
    if branch == BVC:
        return value & 0x40 == 0
    return branch == BVS and value & 0x40 != 0


@kernel
def _sooner(dot: int, event: int, change: int) -> int:
    return integer(event) if dot < event < change else change


@kernel
def polls_until(registers: Array, prg: Array, pc: int, opcode: int, value: int, dot: int) -> int:
    """Return the dots of the turns of a loop that will read the same as this one did.

    `pc` is behind the read, `dot` the time of the read. Loops are `LDA $2002`, perhaps an `AND`,
    and a branch back to it, or `BIT $2002` and a branch.
    """
    if opcode not in (LDA_ABSOLUTE, BIT_ABSOLUTE) or pc < 0x8003:
        return 0
    if value & BLANK_FLAG:
        # This read has taken the flag: the next one answers something else.
        return 0
    if prg[(pc - 2) & 0x7FFF] != 0x02 or prg[(pc - 1) & 0x7FFF] != 0x20:
        return 0
    following = integer(prg[pc & 0x7FFF])
    if following == AND_IMMEDIATE and opcode != BIT_ABSOLUTE:
        branch = integer(prg[(pc + 2) & 0x7FFF])
        tested = integer(value) & integer(prg[(pc + 1) & 0x7FFF])
        taken = tested != 0 if branch == BNE else (branch == BEQ and tested == 0)
        end, turn, back = pc + 4, 9 * 3, 0xF9
    else:
        branch = following
        overflow_test = branch in (BVC, BVS)
        taken = _is_taken(branch, value) and (opcode == BIT_ABSOLUTE or not overflow_test)
        end, turn, back = pc + 2, 7 * 3, 0xFB
    if not taken or prg[(end - 1) & 0x7FFF] != back:
        return 0
    if (end ^ (pc - 3)) & 0xFF00:
        turn += 3
    # Whatever may change the answer ends the waiting; the last turn is left to be read in earnest.
    change = integer(registers[DEADLINE])
    change = _sooner(dot, FLAGS_CLEARED, change)
    change = _sooner(dot, registers[SPRITE_ZERO_DOT], change)
    change = _sooner(dot, registers[OVERFLOW_DOT], change)
    turns = (change - 1 - dot) // turn - 1
    return turns * turn if turns > 0 else 0
