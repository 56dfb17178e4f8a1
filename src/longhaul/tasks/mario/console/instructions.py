"""The 256 instructions of the 6502, official and not: what each does, to what, and how long."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from dataclasses import dataclass

MATRIX = """
BRK     ORA izx KIL     SLO izx NOP zp  ORA zp  ASL zp  SLO zp  PHP     ORA imm ASL acc ANC imm NOP abs ORA abs ASL abs SLO abs
BPL rel ORA izy KIL     SLO izy NOP zpx ORA zpx ASL zpx SLO zpx CLC     ORA aby NOP     SLO aby NOP abx ORA abx ASL abx SLO abx
JSR abs AND izx KIL     RLA izx BIT zp  AND zp  ROL zp  RLA zp  PLP     AND imm ROL acc ANC imm BIT abs AND abs ROL abs RLA abs
BMI rel AND izy KIL     RLA izy NOP zpx AND zpx ROL zpx RLA zpx SEC     AND aby NOP     RLA aby NOP abx AND abx ROL abx RLA abx
RTI     EOR izx KIL     SRE izx NOP zp  EOR zp  LSR zp  SRE zp  PHA     EOR imm LSR acc ALR imm JMP abs EOR abs LSR abs SRE abs
BVC rel EOR izy KIL     SRE izy NOP zpx EOR zpx LSR zpx SRE zpx CLI     EOR aby NOP     SRE aby NOP abx EOR abx LSR abx SRE abx
RTS     ADC izx KIL     RRA izx NOP zp  ADC zp  ROR zp  RRA zp  PLA     ADC imm ROR acc ARR imm JMP ind ADC abs ROR abs RRA abs
BVS rel ADC izy KIL     RRA izy NOP zpx ADC zpx ROR zpx RRA zpx SEI     ADC aby NOP     RRA aby NOP abx ADC abx ROR abx RRA abx
NOP imm STA izx NOP imm SAX izx STY zp  STA zp  STX zp  SAX zp  DEY     NOP imm TXA     ANE imm STY abs STA abs STX abs SAX abs
BCC rel STA izy KIL     SHA izy STY zpx STA zpx STX zpy SAX zpy TYA     STA aby TXS     TAS aby SHY abx STA abx SHX aby SHA aby
LDY imm LDA izx LDX imm LAX izx LDY zp  LDA zp  LDX zp  LAX zp  TAY     LDA imm TAX     LXA imm LDY abs LDA abs LDX abs LAX abs
BCS rel LDA izy KIL     LAX izy LDY zpx LDA zpx LDX zpy LAX zpy CLV     LDA aby TSX     LAS aby LDY abx LDA abx LDX aby LAX aby
CPY imm CMP izx NOP imm DCP izx CPY zp  CMP zp  DEC zp  DCP zp  INY     CMP imm DEX     SBX imm CPY abs CMP abs DEC abs DCP abs
BNE rel CMP izy KIL     DCP izy NOP zpx CMP zpx DEC zpx DCP zpx CLD     CMP aby NOP     DCP aby NOP abx CMP abx DEC abx DCP abx
CPX imm SBC izx NOP imm ISC izx CPX zp  SBC zp  INC zp  ISC zp  INX     SBC imm NOP     SBC imm CPX abs SBC abs INC abs ISC abs
BEQ rel SBC izy KIL     ISC izy NOP zpx SBC zpx INC zpx ISC zpx SED     SBC aby NOP     ISC aby NOP abx SBC abx INC abx ISC abx
"""  # noqa: E501 - sixteen columns, one for each low digit, are easier to check than any wrapping
"""Row and column are the two hexadecimal digits of the opcode; no mode means implied."""

WRITES = frozenset(["STA", "STX", "STY", "SAX", "SHA", "SHX", "SHY", "TAS"])
MODIFIES = frozenset(
    ["ASL", "ROL", "LSR", "ROR", "INC", "DEC", "SLO", "RLA", "SRE", "RRA", "DCP", "ISC"]
)
OFFICIAL_NOP = 0xEA
OFFICIAL_SBC = 0xE9
UNOFFICIAL = frozenset(
    [
        "SLO",
        "RLA",
        "SRE",
        "RRA",
        "SAX",
        "LAX",
        "DCP",
        "ISC",
        "ANC",
        "ALR",
        "ARR",
        "ANE",
        "LXA",
        "SBX",
        "SHA",
        "SHX",
        "SHY",
        "TAS",
        "LAS",
        "KIL",
    ]
)

LENGTH = {
    "": 1, "acc": 1, "imm": 2, "zp": 2, "zpx": 2, "zpy": 2, "izx": 2, "izy": 2, "rel": 2,
    "abs": 3, "abx": 3, "aby": 3, "ind": 3,
}  # fmt: skip
READ_CYCLES = {
    "imm": 2, "zp": 3, "zpx": 4, "zpy": 4, "abs": 4, "abx": 4, "aby": 4, "izx": 6, "izy": 5,
}  # fmt: skip
OTHER_CYCLES = {
    "BRK": 7, "JSR": 6, "RTI": 6, "RTS": 6, "PHP": 3, "PHA": 3, "PLP": 4, "PLA": 4,
}  # fmt: skip
INDEXED = frozenset(("abx", "aby", "izy"))


@dataclass(frozen=True, slots=True)
class Instruction:
    """One opcode; `cycles` is without what a crossed page or a taken branch adds."""

    opcode: int
    operation: str
    mode: str
    cycles: int

    @property
    def length(self) -> int:
        """How many bytes it has."""
        return LENGTH[self.mode]

    @property
    def writes(self) -> bool:
        """Whether it stores without reading first."""
        return self.operation in WRITES

    @property
    def modifies(self) -> bool:
        """Whether it reads, changes and writes a byte of memory."""
        return self.operation in MODIFIES and self.mode != "acc"

    @property
    def pays_for_pages(self) -> bool:
        """Whether it takes a cycle more when indexing leaves the page."""
        return self.mode in INDEXED and not self.writes and not self.modifies

    @property
    def official(self) -> bool:
        """Whether the maker's documents list it."""
        if self.operation == "NOP":
            return self.opcode == OFFICIAL_NOP
        if self.operation == "SBC" and self.mode == "imm":
            return self.opcode == OFFICIAL_SBC
        return self.operation not in UNOFFICIAL


def _cycles(operation: str, mode: str) -> int:
    if operation in OTHER_CYCLES:
        return OTHER_CYCLES[operation]
    if operation == "JMP":
        return 3 if mode == "abs" else 5
    if mode in ("", "acc", "rel"):
        return 2
    cycles = READ_CYCLES[mode]
    if mode in INDEXED and (operation in WRITES or operation in MODIFIES):
        cycles += 1
    return cycles + 2 if operation in MODIFIES else cycles


def _read_matrix() -> tuple[Instruction, ...]:
    found = []
    for row, line in enumerate(MATRIX.strip("\n").split("\n")):
        for column in range(16):
            operation, _, mode = line[column * 8 : column * 8 + 8].strip().partition(" ")
            opcode = row * 16 + column
            found.append(Instruction(opcode, operation, mode, _cycles(operation, mode)))
    return tuple(found)


INSTRUCTIONS = _read_matrix()
"""All 256, by opcode."""


BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.RShift: "ashr",
}
COMPARISON = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "ult", ast.GtE: "uge"}


@functools.cache
def _parse(line: str) -> ast.stmt:
    return ast.parse(line).body[0]


@functools.cache
def _parse_expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


class Lowering:
    """Text of LLVM instructions, and which of its values each variable stands for now.

    All values are 64-bit integers. `memories` gives the pointer behind a name that is indexed.
    """

    def __init__(self, memories: dict[str, str]) -> None:
        self.text: list[str] = []
        self.names: dict[str, str] = {}
        self._memories = memories
        self._count = 0

    def emit(self, operation: str) -> str:
        """Append an instruction; return the name of its value."""
        self._count += 1
        name = f"%t{self._count}"
        self.text.append(f"  {name} = {operation}")
        return name

    def label(self, hint: str) -> str:
        """Return a label that is not in use."""
        self._count += 1
        return f"{hint}{self._count}"

    def pointer(self, memory: str, index: str) -> str:
        """Return the address of a byte of a memory."""
        return self.emit(f"getelementptr i8, ptr {memory}, i64 {index}")

    def load(self, pointer: str) -> str:
        """Return a byte as a number."""
        return self.emit(f"zext i8 {self.emit(f'load i8, ptr {pointer}')} to i64")

    def store(self, pointer: str, value: str) -> None:
        """Write the low byte of a number."""
        narrow = self.emit(f"trunc i64 {value} to i8")
        self.text.append(f"  store i8 {narrow}, ptr {pointer}")

    def test(self, expression: str) -> str:
        """Return whether an expression is true, as one bit."""
        return self._truth(_parse_expression(expression))

    def value(self, expression: str) -> str:
        """Return what an expression stands for."""
        return self._value(_parse_expression(expression))

    def run(self, lines: Iterable[str]) -> None:
        """Append what assignments say."""
        for line in lines:
            self._statement(_parse(line))

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            value = self._value(node.value)
            for target in node.targets:
                self._assign(target, value)
        elif isinstance(node, ast.AugAssign):
            operation = BINARY[type(node.op)]
            left, right = self._value(node.target), self._value(node.value)
            self._assign(node.target, self.emit(f"{operation} i64 {left}, {right}"))
        else:
            raise TypeError(f"cannot be translated: {ast.unparse(node)}")

    def _assign(self, target: ast.expr, value: str) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, ast.Subscript):
            self.store(self._place(target), value)
        else:
            raise TypeError(f"cannot be assigned to: {ast.unparse(target)}")

    def _place(self, node: ast.Subscript) -> str:
        if not isinstance(node.value, ast.Name):
            raise TypeError(f"cannot be indexed: {ast.unparse(node)}")
        return self.pointer(self._memories[node.value.id], self._value(node.slice))

    def _value(self, node: ast.expr) -> str:
        match node:
            case ast.Constant():
                return str(node.value)
            case ast.Name():
                return self.names[node.id]
            case ast.BinOp():
                left, right = self._value(node.left), self._value(node.right)
                return self.emit(f"{BINARY[type(node.op)]} i64 {left}, {right}")
            case ast.UnaryOp(op=ast.Invert()):
                return self.emit(f"xor i64 {self._value(node.operand)}, -1")
            case ast.IfExp():
                test = self._truth(node.test)
                yes, no = self._value(node.body), self._value(node.orelse)
                return self.emit(f"select i1 {test}, i64 {yes}, i64 {no}")
            case ast.Subscript():
                return self.load(self._place(node))
            case ast.Call(func=ast.Name(id="int64")):
                # Everything is that already.
                return self._value(node.args[0])
        raise TypeError(f"cannot be translated: {ast.unparse(node)}")

    def _truth(self, node: ast.expr) -> str:
        if isinstance(node, ast.Compare):
            left, right = self._value(node.left), self._value(node.comparators[0])
            return self.emit(f"icmp {COMPARISON[type(node.ops[0])]} i64 {left}, {right}")
        return self.emit(f"icmp ne i64 {self._value(node)}, 0")
