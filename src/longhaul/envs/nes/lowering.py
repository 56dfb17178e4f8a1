"""The lines of `operations` as LLVM's language: what the CPU does is written down only once."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable

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
