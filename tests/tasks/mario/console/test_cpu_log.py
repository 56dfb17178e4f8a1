"""A log of a program that does every official instruction, line by line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longhaul.tasks.mario.console import layout
from longhaul.tasks.mario.console.consoles import Consoles
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.console.instructions import INSTRUCTIONS
from tests.tasks.mario.console.programs import every_opcode
from tests.tasks.mario.console.reference_cpu import Bus, ReferenceCpu

CHAPTERS = (23, 22, 21, 20, 19, 18)
"""Turns of the delay: with fewer of them, later instructions are met at the end of the frame."""
WINDOW = 1366
"""Cycles by which the beginnings of consoles differ, one each."""
PROGRAM = every_opcode()
MEMORY = bytes(np.random.default_rng(1).integers(0, 256, 2048, dtype=np.uint8))


@dataclass(frozen=True)
class Line:
    """The registers after an instruction, and the cycles so far."""

    cycles: int
    a: int
    x: int
    y: int
    sp: int
    pc: int
    p: int

    def __str__(self) -> str:
        """Return the line of a log."""
        registers = f"A:{self.a:02X} X:{self.x:02X} Y:{self.y:02X} P:{self.p:02X} SP:{self.sp:02X}"
        return f"{self.pc:04X}  {registers} CYC:{self.cycles}"


def reference_log(turns: int) -> tuple[list[Line], set[int]]:
    """Return the log of a literal CPU from the delay to the end of a frame, and its opcodes."""
    bus = Bus(bytearray(MEMORY), PROGRAM.image)
    cpu = ReferenceCpu(bus, y=turns, pc=PROGRAM.names["begin"])
    lines, opcodes = [], set()
    while bus.cycles * 3 < layout.FRAME_DOTS:
        opcode = PROGRAM.image[cpu.pc - 0x8000]
        cpu.step()
        if cpu.bus.cycles * 3 >= layout.FRAME_DOTS - 3 * WINDOW:
            opcodes.add(opcode)
        lines.append(Line(bus.cycles, cpu.a, cpu.x, cpu.y, cpu.sp, cpu.pc, cpu.p))
    return lines, opcodes


def our_log(turns: int) -> list[Line]:
    """Return what consoles have done at the end of a frame that each began a cycle later."""
    consoles = Consoles(Cartridge(PROGRAM.image, bytes(8192), "vertical"), WINDOW)
    late = 3 * np.arange(WINDOW)
    consoles.ram[:] = np.frombuffer(MEMORY, np.uint8)
    consoles.registers[:, layout.Y] = turns
    consoles.registers[:, layout.PC] = PROGRAM.names["begin"]
    consoles.registers[:, layout.DOT] = late
    consoles.step(np.zeros(WINDOW, np.uint8), draw=False)
    lines = []
    for row in range(WINDOW - 1, -1, -1):
        registers = consoles.registers[row]
        dots = layout.FRAME_DOTS + int(registers[layout.DOT]) - int(late[row])
        values = [int(registers[name]) for name in range(layout.A, layout.P + 1)]
        lines.append(Line(dots // 3, *values))
    return lines


def test_the_log_of_every_official_instruction_is_the_references() -> None:
    met: set[int] = set()
    compared = 0
    for turns in CHAPTERS:
        expected, opcodes = reference_log(turns)
        by_cycle = {line.cycles: line for line in expected}
        ours = list(dict.fromkeys(our_log(turns)))
        first = ours[0].cycles
        wanted = [line for line in expected if first <= line.cycles <= ours[-1].cycles]
        assert [str(line) for line in ours] == [str(line) for line in wanted]
        assert by_cycle[first] == ours[0]
        met |= opcodes
        compared += len(ours)
    official = {each.opcode for each in INSTRUCTIONS if each.official}
    assert met == official
    assert compared > 1000
