"""Ports that need no careful step: controllers, and the sound, which is not played.

Neither the time nor the picture matters to them. A game reads its controllers bit by bit, sixteen
times a frame. Registers are written by their lowest byte: none of these holds more.
"""

from __future__ import annotations

from longhaul.tasks.mario.console.layout import PAD_1, PAD_2, SHIFT_1, SHIFT_2, STROBE
from longhaul.tasks.mario.console.operations import READ, WRITE
from longhaul.tasks.mario.console.program import Located

PADS = (0x4016, 0x4017)
BEHIND_PADS = "address < 0x4018"
"""What must hold of an indexed address that begins at a controller."""
COPIES_SPRITES = 0x4014
SILENCE = range(0x4000, 0x8000)
"""What is written here is lost, but for the two ports that are listed above."""

PRESSED_1, PRESSED_2 = f"row[{4 * SHIFT_1}]", f"row[{4 * SHIFT_2}]"
STROBED = f"row[{4 * STROBE}]"

READ_PAD = [
    "pad = (address & 1) << 2",
    f"pressed = row[{4 * SHIFT_1} + pad]",
    f"is_held = {STROBED}",
    f"value = 0x40 | (row[{4 * PAD_1} + pad] if is_held else pressed) & 1",
    f"row[{4 * SHIFT_1} + pad] = pressed if is_held else pressed >> 1 | 0x80",
]
WRITE_STROBE = [
    f"falls = {STROBED} & ~value & 1",
    f"{PRESSED_1} = row[{4 * PAD_1}] if falls else {PRESSED_1}",
    f"{PRESSED_2} = row[{4 * PAD_2}] if falls else {PRESSED_2}",
    f"{STROBED} = value & 1",
]


def quiet_lines(located: Located) -> list[str] | None:
    """Return what an instruction does to such a port once its address is known; None for others."""
    instruction, operand = located.instruction, located.operand
    if instruction.operation in READ and operand in PADS:
        return [*READ_PAD, *READ[instruction.operation]]
    if not instruction.writes or instruction.mode != "abs":
        return None
    if operand == PADS[0]:
        return [*WRITE[instruction.operation], *WRITE_STROBE]
    return [] if operand in SILENCE and operand != COPIES_SPRITES else None
