from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from longhaul.tasks.mario.console import layout
from longhaul.tasks.mario.console.consoles import Consoles
from longhaul.tasks.mario.console.cpu import KINDS, MODES, careful_source
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.console.instructions import INSTRUCTIONS
from longhaul.tasks.mario.console.program import find_blocks
from tests.tasks.mario.console.reference_cpu import Bus, PortTouched, ReferenceCpu, Stopped
from tests.tasks.mario.console.reference_opcodes import OPCODES

KIL = 0x02
CELL = 8
CELLS = 5 * 256
CALLS = 0xD000
"""Where a list of calls of all cells begins, so that they are known to be code."""
JSR = 0x20
LONGEST = 200
MODE_NAMES = {
    "": "implied", "acc": "accumulator", "imm": "immediate", "zp": "zero page",
    "zpx": "zero page,x", "zpy": "zero page,y", "abs": "absolute", "abx": "absolute,x",
    "aby": "absolute,y", "izx": "(zero page,x)", "izy": "(zero page),y", "rel": "relative",
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """All a program can change until it stops."""

    registers: tuple[int, ...]
    ram: bytes
    cycles: int


def cells(random: np.random.Generator) -> bytes:
    """Return a program of cells, each one instruction and a stop; all opcodes take turns."""
    prg = random.integers(0, 256, 0x8000, dtype=np.uint8)
    for cell in range(CELLS):
        begin = cell * CELL
        prg[begin] = cell % 256
        # High bytes that lead to memory or the cartridge, or just below and behind the ports.
        prg[begin + 2] = random.choice([0, 1, 3, 7, 0x1F, 0x50, 0x7F, 0x80, 0xA5, 0xFF])
        prg[begin + INSTRUCTIONS[cell % 256].length : begin + CELL] = KIL
    return prg.tobytes()


def known(prg: bytes) -> bytes:
    """Return the program with calls of all cells where the CPU begins: they become native code."""
    calls = b"".join(
        bytes([JSR, *(0x8000 + cell * CELL).to_bytes(2, "little")]) for cell in range(CELLS)
    )
    begin = CALLS.to_bytes(2, "little")
    known = bytearray(prg)
    known[CALLS - 0x8000 :] = bytes([KIL]) * (0x10000 - CALLS)
    known[CALLS - 0x8000 : CALLS - 0x8000 + len(calls)] = calls
    known[0x7FFA:] = begin * 3
    return bytes(known)


def unknown(prg: bytes) -> bytes:
    """Return the program with nothing where the CPU begins: every step is a careful one."""
    return prg[: CALLS - 0x8000] + bytes([KIL]) * (0x10000 - CALLS)


def consoles(prg: bytes, random: np.random.Generator, entries: NDArray[np.int64]) -> Consoles:
    """Return consoles with random registers and memory, each at one of the entries."""
    found = Consoles(Cartridge(prg, bytes(8192), "vertical"), len(entries))
    found.ram[:] = random.integers(0, 256, found.ram.shape, dtype=np.uint8)
    for register in (layout.A, layout.X, layout.Y, layout.SP, layout.P):
        found.registers[:, register] = random.integers(0, 256, len(entries))
    found.registers[:, layout.P] = found.registers[:, layout.P] & ~0x10 | 0x20
    found.registers[:, layout.PC] = entries
    found.registers[:, layout.DOT] = 0
    return found


def expected(batch: Consoles, prg: bytes, row: int) -> Outcome | None:
    """Return what the reference does from here until it stops; None if it touches a port."""
    registers = batch.registers[row]
    bus = Bus(bytearray(batch.ram[row].tobytes()), prg)
    a, x, y, sp, pc, p = (int(registers[r]) for r in range(layout.A, layout.P + 1))
    cpu = ReferenceCpu(bus, a, x, y, sp, pc, p)
    try:
        for _ in range(LONGEST):
            if cpu.pc >= 0xFFFD or 0x2000 <= cpu.pc < 0x8000:
                return None
            before = bus.cycles
            cpu.step()
    except Stopped:
        stopped = (cpu.pc - 1) % 0x10000
        outcome = (cpu.a, cpu.x, cpu.y, cpu.sp, stopped, cpu.p)
        return Outcome(outcome, bytes(bus.ram), before)
    except PortTouched:
        return None
    return None


def found(batch: Consoles, row: int) -> Outcome:
    """Return what the native CPU did until it stopped."""
    registers = batch.registers[row]
    outcome = tuple(int(registers[r]) for r in range(layout.A, layout.P + 1))
    # The stop itself takes two cycles.
    return Outcome(outcome, batch.ram[row].tobytes(), int(registers[layout.JAMMED]) // 3 - 2)


def compare(prg: bytes, random: np.random.Generator, entries: NDArray[np.int64]) -> int:
    """Compare all rows that the reference can follow; return how many."""
    batch = consoles(prg, random, entries)
    wanted = [expected(batch, prg, row) for row in range(len(batch))]
    batch.step(np.zeros(len(batch), np.uint8), draw=False)
    for row, outcome in enumerate(wanted):
        if outcome is not None:
            opcode = prg[int(entries[row]) - 0x8000]
            assert found(batch, row) == outcome, f"{OPCODES[opcode]} ({opcode:#04x}), row {row}"
    return sum(outcome is not None for outcome in wanted)


def test_the_matrix_of_instructions_is_that_of_the_documentation() -> None:
    for instruction in INSTRUCTIONS:
        name, mode = OPCODES[instruction.opcode]
        if mode == "special" or instruction.operation in ("PHP", "PHA", "PLP", "PLA"):
            assert instruction.operation == name.removesuffix(" ()")
        else:
            assert (instruction.operation, MODE_NAMES[instruction.mode]) == (name, mode)


def test_151_instructions_are_official() -> None:
    assert sum(instruction.official for instruction in INSTRUCTIONS) == 151


@pytest.mark.parametrize("finish", [known, unknown])
def test_every_instruction_does_and_takes_what_the_reference_says(
    finish: Callable[[bytes], bytes],
) -> None:
    random = np.random.default_rng(0)
    prg = finish(cells(random))
    compared = compare(prg, random, 0x8000 + CELL * np.arange(CELLS))
    assert compared > CELLS * 0.75


@pytest.mark.parametrize("seed", range(3))
def test_random_programs_run_as_on_the_reference(seed: int) -> None:
    random = np.random.default_rng(seed)
    prg = random.integers(0, 256, 0x8000, dtype=np.uint8).tobytes()
    assert compare(prg, random, random.integers(0x8000, 0xFF00, 1000)) > 100


def test_every_official_instruction_becomes_native_code() -> None:
    blocks = find_blocks(known(cells(np.random.default_rng(0))))
    translated = {located.instruction.opcode for block in blocks for located in block.instructions}
    official = {instruction.opcode for instruction in INSTRUCTIONS if instruction.official}
    assert translated == official - {0x00}


def test_the_text_of_the_careful_step_is_python() -> None:
    compile(careful_source(KINDS, MODES), "text", "exec")
