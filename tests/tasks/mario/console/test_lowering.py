from __future__ import annotations

import ctypes

import llvmlite.binding as llvm
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.tasks.mario.console.instructions import Lowering

EXPRESSIONS = (
    "a + value - 3",
    "~(a ^ value) & (a ^ value >> 2) & 0x80",
    "(1 if a & value else 0) | (value & 0x80) << 1",
    "(2 if a & 0xFF == 0 else 5) | int64(a)",
    "(7 if a != value else 9) + (1 if a < value else 0) + (2 if a >= value else 0)",
)


def compile_function(expression: str) -> tuple[object, object]:
    """Return an expression of `a` and `value` as native code, and what keeps it alive."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    code = Lowering({})
    code.names = {"a": "%a", "value": "%value"}
    result = code.value(expression)
    lines = ["define i64 @f(i64 %a, i64 %value) {", *code.text, f"  ret i64 {result}", "}"]
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly("\n".join(lines)), machine)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    return kind(engine.get_function_address("f")), engine


FUNCTIONS = {expression: compile_function(expression) for expression in EXPRESSIONS}


@pytest.mark.parametrize("expression", EXPRESSIONS)
@given(a=st.integers(0, 0xFFFF), value=st.integers(0, 0xFFFF))
def test_expressions_mean_what_python_means(expression: str, a: int, value: int) -> None:
    function, _ = FUNCTIONS[expression]
    assert function(a, value) == eval(expression, {"a": a, "value": value, "int64": int})  # type: ignore[operator]


def test_assignments_change_what_a_name_stands_for() -> None:
    code = Lowering({"row": "%row"})
    code.names = {"a": "%a"}
    code.run(["x = nz = a", "x &= 1", "row[x] = a"])
    assert code.names["nz"] == "%a"
    assert code.names["x"] != "%a"
    assert code.text[-1].startswith("  store i8")


@pytest.mark.parametrize(
    "line", ["if a: pass", "a.b = 1", "a = b'x' @ a", "a = -a", "a = f(a)", "a = row.b[0]"]
)
def test_what_cannot_be_translated_is_told(line: str) -> None:
    code = Lowering({})
    code.names = {"a": "%a"}
    with pytest.raises((TypeError, KeyError)):
        code.run([line])
