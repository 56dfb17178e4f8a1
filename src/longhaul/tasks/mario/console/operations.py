"""The text of every step of an instruction, from which both forms of the CPU are put together.

The lines work on local variables: the registers `a x y sp pc`, the flags `c i d v` and `nz`, the
bytes `low high` after the opcode, and `dot`, the time. `nz` stands for two flags at once: zero is
set when its low byte is 0, negative when bit 7 or bit 8 is set. `v` is set when it is not 0.
"""

from __future__ import annotations

ADDRESS = {
    "zp": ["address = low"],
    "zpx": ["address = (low + x) & 0xFF"],
    "zpy": ["address = (low + y) & 0xFF"],
    "abs": ["address = low | high << 8"],
    "abx": ["base = low | high << 8", "address = (base + x) & 0xFFFF"],
    "aby": ["base = low | high << 8", "address = (base + y) & 0xFFFF"],
    "izx": [
        "address = (low + x) & 0xFF",
        "address = int64(row[address]) | int64(row[(address + 1) & 0xFF]) << 8",
    ],
    "izy": [
        "base = int64(row[low]) | int64(row[(low + 1) & 0xFF]) << 8",
        "address = (base + y) & 0xFFFF",
    ],
}
"""How each mode finds the address of its operand."""

LEAVES_PAGE = "(address ^ base) & 0xFF00"

ADD = [
    "total = a + value + c",
    "v = ~(a ^ value) & (a ^ total) & 0x80",
    "c = total >> 8",
    "a = nz = total & 0xFF",
]
SUBTRACT = ["value ^= 0xFF", *ADD]


def compare(register: str) -> list[str]:
    """Return the lines that compare a register with the operand."""
    return [f"total = {register} - value", "c = (total >> 8) + 1", "nz = total & 0xFF"]


READ = {
    "ADC": ADD,
    "SBC": SUBTRACT,
    "AND": ["a = nz = a & value"],
    "ORA": ["a = nz = a | value"],
    "EOR": ["a = nz = a ^ value"],
    "LDA": ["a = nz = value"],
    "LDX": ["x = nz = value"],
    "LDY": ["y = nz = value"],
    "CMP": compare("a"),
    "CPX": compare("x"),
    "CPY": compare("y"),
    "BIT": ["v = value & 0x40", "nz = (1 if a & value else 0) | (value & 0x80) << 1"],
    "NOP": [],
    "LAX": ["a = x = nz = value"],
    "LAS": ["a = x = sp = nz = value & sp"],
    "ANC": ["a = nz = a & value", "c = a >> 7"],
    "ALR": ["a &= value", "c = a & 1", "a = nz = a >> 1"],
    "ARR": [
        "a = nz = (a & value) >> 1 | c << 7",
        "c = a >> 6 & 1",
        "v = (a ^ a << 1) & 0x40",
    ],
    "ANE": ["a = nz = (a | 0xEE) & x & value"],
    "LXA": ["a = x = nz = (a | 0xEE) & value"],
    "SBX": ["total = (a & x) - value", "c = (total >> 8) + 1", "x = nz = total & 0xFF"],
}
"""What is done with the byte that was read."""

SHIFT_LEFT = ["c = value >> 7", "value = nz = value << 1 & 0xFF"]
SHIFT_RIGHT = ["c = value & 1", "value = nz = value >> 1"]
ROTATE_LEFT = ["total = value << 1 | c", "c = value >> 7", "value = nz = total & 0xFF"]
ROTATE_RIGHT = ["total = value | c << 8", "c = value & 1", "value = nz = total >> 1"]
INCREMENT = ["value = nz = (value + 1) & 0xFF"]
DECREMENT = ["value = nz = (value - 1) & 0xFF"]

MODIFY = {
    "ASL": SHIFT_LEFT,
    "LSR": SHIFT_RIGHT,
    "ROL": ROTATE_LEFT,
    "ROR": ROTATE_RIGHT,
    "INC": INCREMENT,
    "DEC": DECREMENT,
    "SLO": SHIFT_LEFT,
    "SRE": SHIFT_RIGHT,
    "RLA": ROTATE_LEFT,
    "RRA": ROTATE_RIGHT,
    "ISC": INCREMENT,
    "DCP": DECREMENT,
}
"""How the byte that was read is changed before it is written back."""

AFTER_MODIFY = {
    "SLO": READ["ORA"],
    "RLA": READ["AND"],
    "SRE": READ["EOR"],
    "RRA": ADD,
    "DCP": READ["CMP"],
    "ISC": SUBTRACT,
}
"""What the unofficial ones do with the changed byte."""

HIGH_PLUS_ONE = "((base >> 8) + 1)"
CORRUPT_ADDRESS = [f"if {LEAVES_PAGE}:", "    address = address & 0xFF | value << 8"]
"""These stores spoil the high byte of the address when indexing leaves the page."""

WRITE = {
    "STA": ["value = a"],
    "STX": ["value = x"],
    "STY": ["value = y"],
    "SAX": ["value = a & x"],
    "SHA": [f"value = a & x & {HIGH_PLUS_ONE} & 0xFF", *CORRUPT_ADDRESS],
    "SHX": [f"value = x & {HIGH_PLUS_ONE} & 0xFF", *CORRUPT_ADDRESS],
    "SHY": [f"value = y & {HIGH_PLUS_ONE} & 0xFF", *CORRUPT_ADDRESS],
    "TAS": ["sp = a & x", f"value = sp & {HIGH_PLUS_ONE} & 0xFF", *CORRUPT_ADDRESS],
}
"""Which byte is written."""

BRANCH_IF = {
    "BPL": "nz & 0x180 == 0",
    "BMI": "nz & 0x180 != 0",
    "BVC": "v == 0",
    "BVS": "v != 0",
    "BCC": "c == 0",
    "BCS": "c != 0",
    "BNE": "nz & 0xFF != 0",
    "BEQ": "nz & 0xFF == 0",
}

STATUS = "c | (2 if nz & 0xFF == 0 else 0) | i << 2 | d << 3 | 0x20 | (0x40 if v else 0) | (0x80 if nz & 0x180 else 0)"  # noqa: E501


def push(value: str) -> list[str]:
    """Return the lines that put a byte on the stack."""
    return [f"row[0x100 | sp] = {value}", "sp = (sp - 1) & 0xFF"]


def pull(name: str) -> list[str]:
    """Return the lines that take a byte from the stack."""
    return ["sp = (sp + 1) & 0xFF", f"{name} = int64(row[0x100 | sp])"]


TAKE_STATUS = [
    "c = value & 1",
    "i = value >> 2 & 1",
    "d = value >> 3 & 1",
    "v = value & 0x40",
    "nz = (0 if value & 2 else 1) | (value & 0x80) << 1",
]
PULL_PC = [*pull("low"), *pull("high"), "pc = low | high << 8"]

OTHER = {
    "NOP": [],
    "CLC": ["c = 0"],
    "SEC": ["c = 1"],
    "CLI": ["i = 0"],
    "SEI": ["i = 1"],
    "CLD": ["d = 0"],
    "SED": ["d = 1"],
    "CLV": ["v = 0"],
    "TAX": ["x = nz = a"],
    "TAY": ["y = nz = a"],
    "TXA": ["a = nz = x"],
    "TYA": ["a = nz = y"],
    "TSX": ["x = nz = sp"],
    "TXS": ["sp = x"],
    "INX": ["x = nz = (x + 1) & 0xFF"],
    "INY": ["y = nz = (y + 1) & 0xFF"],
    "DEX": ["x = nz = (x - 1) & 0xFF"],
    "DEY": ["y = nz = (y - 1) & 0xFF"],
    "PHA": push("a"),
    "PHP": push(f"{STATUS} | 0x10"),
    "PLA": [*pull("value"), "a = nz = value"],
    "PLP": [*pull("value"), *TAKE_STATUS],
    "RTI": [*pull("value"), *TAKE_STATUS, *PULL_PC],
    "RTS": [*PULL_PC, "pc = (pc + 1) & 0xFFFF"],
    "JSR": [*push("(pc - 1) >> 8 & 0xFF"), *push("(pc - 1) & 0xFF"), "pc = low | high << 8"],
    "BRK": [
        "pc = (pc + 1) & 0xFFFF",
        *push("pc >> 8"),
        *push("pc & 0xFF"),
        *push(f"{STATUS} | 0x10"),
        "i = 1",
        "pc = int64(prg[0x7FFE]) | int64(prg[0x7FFF]) << 8",
    ],
    # The CPU stops for good; the picture goes on.
    "KIL": ["pc = (pc - 1) & 0xFFFF", "registers[JAMMED] = dot", "dot = max(dot, deadline)"],
}
"""Everything that has no operand in memory."""
