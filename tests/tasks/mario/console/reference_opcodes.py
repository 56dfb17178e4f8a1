"""The opcodes of the 6502, from the fields its makers put them together from: aaabbbcc."""

from __future__ import annotations

ARITHMETIC = ("ORA", "AND", "EOR", "ADC", "STA", "LDA", "CMP", "SBC")
SHIFTS = ("ASL", "ROL", "LSR", "ROR", "STX", "LDX", "DEC", "INC")
BOTH = ("SLO", "RLA", "SRE", "RRA", "SAX", "LAX", "DCP", "ISC")
CONTROL = ("NOP", "BIT", "NOP", "NOP", "STY", "LDY", "CPY", "CPX")
BRANCHES = ("BPL", "BMI", "BVC", "BVS", "BCC", "BCS", "BNE", "BEQ")
FLAGS = ("CLC", "SEC", "CLI", "SEI", "TYA", "CLV", "CLD", "SED")
STACK = ("PHP", "PLP", "PHA", "PLA", "DEY", "TAY", "INY", "INX")
MOVES = ("TXA", "TAX", "DEX", "NOP")
IMMEDIATE_BOTH = ("ANC", "ANC", "ALR", "ARR", "ANE", "LXA", "SBX", "SBC")
USES_Y = ("STX", "LDX", "SAX", "LAX", "SHX", "SHA")


def opcode(a: int, b: int, c: int) -> int:
    return a << 5 | b << 2 | c


def _arithmetic(a: int) -> dict[int, tuple[str, str]]:
    modes = ("(zero page,x)", "zero page", "immediate", "absolute",
             "(zero page),y", "zero page,x", "absolute,y", "absolute,x")  # fmt: skip
    found = {opcode(a, b, 1): (ARITHMETIC[a], mode) for b, mode in enumerate(modes)}
    if ARITHMETIC[a] == "STA":
        found[opcode(a, 2, 1)] = ("NOP", "immediate")
    return found


def _shifts(a: int) -> dict[int, tuple[str, str]]:
    name = SHIFTS[a]
    index = "y" if name in USES_Y else "x"
    found = {
        opcode(a, 0, 2): ("KIL", "implied") if a < 4 else ("NOP", "immediate"),
        opcode(a, 1, 2): (name, "zero page"),
        opcode(a, 2, 2): (name, "accumulator") if a < 4 else (MOVES[a - 4], "implied"),
        opcode(a, 3, 2): (name, "absolute"),
        opcode(a, 4, 2): ("KIL", "implied"),
        opcode(a, 5, 2): (name, f"zero page,{index}"),
        opcode(a, 6, 2): ("NOP", "implied"),
        opcode(a, 7, 2): (name, f"absolute,{index}"),
    }
    if name == "LDX":
        found |= {opcode(a, 0, 2): ("LDX", "immediate"), opcode(a, 6, 2): ("TSX", "implied")}
    if name == "STX":
        found |= {opcode(a, 6, 2): ("TXS", "implied"), opcode(a, 7, 2): ("SHX", "absolute,y")}
    return found


def _both(a: int) -> dict[int, tuple[str, str]]:
    name = BOTH[a]
    index = "y" if name in USES_Y else "x"
    found = {
        opcode(a, 0, 3): (name, "(zero page,x)"),
        opcode(a, 1, 3): (name, "zero page"),
        opcode(a, 2, 3): (IMMEDIATE_BOTH[a], "immediate"),
        opcode(a, 3, 3): (name, "absolute"),
        opcode(a, 4, 3): (name, "(zero page),y"),
        opcode(a, 5, 3): (name, f"zero page,{index}"),
        opcode(a, 6, 3): (name, "absolute,y"),
        opcode(a, 7, 3): (name, f"absolute,{index}"),
    }
    if name == "SAX":
        found[opcode(a, 4, 3)] = ("SHA", "(zero page),y")
        found[opcode(a, 6, 3)] = ("TAS", "absolute,y")
        found[opcode(a, 7, 3)] = ("SHA", "absolute,y")
    if name == "LAX":
        found[opcode(a, 6, 3)] = ("LAS", "absolute,y")
    return found


def _control(a: int) -> dict[int, tuple[str, str]]:
    name = CONTROL[a]
    indexed = name if name in ("STY", "LDY") else "NOP"
    first = ("BRK", "JSR", "RTI", "RTS")
    found = {
        opcode(a, 0, 0): (first[a], "special") if a < 4 else (name, "immediate"),
        opcode(a, 1, 0): (name, "zero page"),
        opcode(a, 2, 0): (STACK[a], "implied"),
        opcode(a, 3, 0): (name, "absolute"),
        opcode(a, 4, 0): (BRANCHES[a], "relative"),
        opcode(a, 5, 0): (indexed, "zero page,x"),
        opcode(a, 6, 0): (FLAGS[a], "implied"),
        opcode(a, 7, 0): (indexed, "absolute,x"),
    }
    if a == 4:
        found |= {opcode(a, 0, 0): ("NOP", "immediate"), opcode(a, 7, 0): ("SHY", "absolute,x")}
    if a in (2, 3):
        found[opcode(a, 3, 0)] = ("JMP" if a == 2 else "JMP ()", "special")
    return found


def _all() -> dict[int, tuple[str, str]]:
    found: dict[int, tuple[str, str]] = {}
    for a in range(8):
        found |= _control(a) | _arithmetic(a) | _shifts(a) | _both(a)
    return found


OPCODES = _all()
"""What each of the 256 opcodes does, and to what."""
