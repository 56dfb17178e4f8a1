"""The CPU, one careful step at a time: any instruction of any kind as the chip does it.

It does the reads and writes that have no use but are noticed by ports. Most of a cartridge's
program never comes here: `translate` turns it into native code, from the same lines of
`operations` and the table of `instructions`.

`python -m longhaul.tasks.mario.console.cpu` shows the step as it is compiled.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from longhaul.core.env import Array
from longhaul.core.native import integer, kernel
from longhaul.tasks.mario.console import layout
from longhaul.tasks.mario.console.game import Machine
from longhaul.tasks.mario.console.instructions import INSTRUCTIONS
from longhaul.tasks.mario.console.operations import (
    ADDRESS,
    AFTER_MODIFY,
    BRANCH_IF,
    LEAVES_PAGE,
    MODIFY,
    OTHER,
    READ,
    STATUS,
    TAKE_STATUS,
    WRITE,
)
from longhaul.tasks.mario.console.ports import fetch_elsewhere, polls_until, read_port, write_port

Lines = list[str]

ZERO_PAGE = frozenset(("zp", "zpx", "zpy"))
NEEDS_CARE = frozenset(("BRK", "KIL"))

LOAD = [
    "a = int64(registers[A]) & 0xFF",
    "x = int64(registers[X]) & 0xFF",
    "y = int64(registers[Y]) & 0xFF",
    "sp = int64(registers[SP]) & 0xFF",
    "pc = int64(registers[PC]) & 0xFFFF",
    "value = int64(registers[P])",
    *TAKE_STATUS,
    "dot = int64(registers[DOT])",
]
STORE = [
    "registers[A] = a",
    "registers[X] = x",
    "registers[Y] = y",
    "registers[SP] = sp",
    "registers[PC] = pc",
    f"registers[P] = {STATUS}",
    "registers[DOT] = dot",
]


def indent(lines: Iterable[str]) -> Lines:
    """Return the lines one level deeper."""
    return [f"    {line}" for line in lines]


def choose(name: str, cases: Mapping[str, Lines]) -> Lines:
    """Return the lines that do one of several things, by the value of a variable."""
    lines: Lines = []
    for value, body in cases.items():
        lines += [f"{'elif' if lines else 'if'} {name} == {value}:", *indent(body or ["pass"])]
    return lines


def branch(condition: str) -> Lines:
    """Return the lines of a branch: a cycle more when taken, two when into another page."""
    return [
        f"if {condition}:",
        "    address = (pc + (low ^ 0x80) - 0x80) & 0xFFFF",
        "    dot += 3 if (address ^ pc) & 0xFF00 == 0 else 6",
        "    pc = address",
    ]


WRONG_ADDRESS = "base & 0xFF00 | address & 0xFF"

CAREFUL_READ = [
    # The CPU looks before it has carried into the high byte of the address, and a port notices.
    f"if INDEXED[opcode] and (WRITES[opcode] or MODIFIES[opcode] or {LEAVES_PAGE}):",
    f"    peek(row, registers, machine, {WRONG_ADDRESS}, dot - 3)",
    f"if PAYS_FOR_PAGES[opcode] and {LEAVES_PAGE}:",
    "    dot += 3",
    "if READS[opcode]:",
    "    value = peek(row, registers, machine, address, dot - 3)",
    "    dot += polls_until(registers, machine.game.prg, pc, opcode, value, dot - 3)",
]
CAREFUL_WRITE = [
    "if MODIFIES[opcode]:",
    # The unchanged byte is written first, and a port notices.
    "    dot += poke(row, registers, machine, address, old, dot - 6)",
    "    dot += poke(row, registers, machine, address, value, dot - 3)",
    "if WRITES[opcode]:",
    "    dot += poke(row, registers, machine, address, value, dot - 3)",
]
JUMP = [
    "if opcode == 0x6C:",
    # The high byte of the target is looked for in the same page as the low byte.
    "    address = low | high << 8",
    "    wrapped = (low + 1) & 0xFF | high << 8",
    "    low = peek(row, registers, machine, address, dot - 6)",
    "    high = peek(row, registers, machine, wrapped, dot - 3)",
    "pc = low | high << 8",
]


def careful_cases(kinds: Mapping[str, int]) -> tuple[Lines, Lines]:
    """Return what is done before and after a changed byte is written back."""
    first: dict[str, Lines] = {**READ, **WRITE, **MODIFY, "JMP": JUMP}
    first |= {name: branch(condition) for name, condition in BRANCH_IF.items()}
    first |= {name: lines for name, lines in OTHER.items() if name != "NOP"}
    before = {str(kinds[name]): first[name] for name in kinds}
    after = {str(kinds[name]): lines for name, lines in AFTER_MODIFY.items()}
    return choose("kind", before), choose("kind", after)


def careful_source(kinds: Mapping[str, int], modes: Mapping[str, int]) -> str:
    """Return the text of `execute_carefully`."""
    find = choose("mode", {str(modes[name]): lines for name, lines in ADDRESS.items()})
    before, after = careful_cases(kinds)
    lines = [
        *LOAD,
        "opcode = peek(row, registers, machine, pc, dot)",
        "low = fetch(row, machine, pc + 1)",
        "high = fetch(row, machine, pc + 2)",
        "mode = MODES[opcode]",
        "kind = KINDS[opcode]",
        "pc = (pc + LENGTHS[opcode]) & 0xFFFF",
        "dot += CYCLES[opcode] * 3",
        "address = base = 0",
        "value = a if mode == ACCUMULATOR else low",
        *find,
        *CAREFUL_READ,
        "old = value",
        *before,
        "if mode == ACCUMULATOR:",
        "    a = value",
        *CAREFUL_WRITE,
        *after,
        *STORE,
    ]
    text = "\n".join(["def execute_carefully(row, registers, machine):", *indent(lines), ""])
    return text.replace("prg[", "machine.game.prg[").replace("deadline", "registers[DEADLINE]")


@kernel
def fetch(row: Array, machine: Machine, address: int) -> int:
    """Return a byte of code."""
    if address & 0x8000:
        return integer(machine.game.prg[address & 0x7FFF])
    return integer(fetch_elsewhere(row, address & 0xFFFF))


@kernel
def peek(row: Array, registers: Array, machine: Machine, address: int, dot: int) -> int:
    """Return what the CPU reads at an address."""
    if address >= 0x8000:
        return integer(machine.game.prg[address & 0x7FFF])
    if address < 0x2000:
        return integer(row[address & 0x7FF])
    return read_port(row, registers, machine, address, dot)


@kernel
def poke(row: Array, registers: Array, machine: Machine, address: int, value: int, dot: int) -> int:
    """Write a byte for the CPU; return the dots for which it waits."""
    if address < 0x2000:
        row[address & 0x7FF] = value
    elif address < 0x8000:
        return write_port(row, registers, machine, address, value, dot)
    return 0


def _table(values: Iterable[int]) -> Array:
    return np.array(list(values), np.int64)


def _tables(kinds: Mapping[str, int], modes: Mapping[str, int]) -> dict[str, Any]:
    """Return what the careful step looks up by opcode."""
    reads = [
        entry.mode in ADDRESS and not entry.writes and entry.operation != "JSR"
        and entry.operation != "JMP"
        for entry in INSTRUCTIONS
    ]  # fmt: skip
    return {
        "MODES": _table(modes[entry.mode] for entry in INSTRUCTIONS),
        "KINDS": _table(kinds.get(entry.operation, -1) for entry in INSTRUCTIONS),
        "LENGTHS": _table(entry.length for entry in INSTRUCTIONS),
        "CYCLES": _table(entry.cycles for entry in INSTRUCTIONS),
        "READS": _table(reads),
        "WRITES": _table(entry.writes for entry in INSTRUCTIONS),
        "MODIFIES": _table(entry.modifies for entry in INSTRUCTIONS),
        "INDEXED": _table(entry.mode in ("abx", "aby", "izy") for entry in INSTRUCTIONS),
        "PAYS_FOR_PAGES": _table(entry.pays_for_pages for entry in INSTRUCTIONS),
        "ACCUMULATOR": modes["acc"],
    }


def _compile(name: str, text: str, names: dict[str, Any]) -> Any:
    """Return a function as native code, with a source that tracebacks can show."""
    file = f"<longhaul.tasks.mario.console.cpu, {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names)
    return kernel(names[name])


KINDS = {
    name: kind for kind, name in enumerate(sorted({i.operation for i in INSTRUCTIONS} - {"NOP"}))
}
MODES = {name: mode for mode, name in enumerate(sorted({i.mode for i in INSTRUCTIONS}))}
NAMES: dict[str, Any] = {
    **{key: value for key, value in vars(layout).items() if key.isupper()},
    **_tables(KINDS, MODES),
    "int64": np.int64,
    "fetch": fetch,
    "peek": peek,
    "poke": poke,
    "polls_until": polls_until,
}
execute_carefully = _compile("execute_carefully", careful_source(KINDS, MODES), dict(NAMES))


if __name__ == "__main__":
    sys.stdout.write(f"{careful_source(KINDS, MODES)}")
