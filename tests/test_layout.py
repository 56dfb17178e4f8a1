"""The shape of the source tree: lengths, names, docstrings, and tests beside what they test."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "longhaul"
TESTS = ROOT / "tests"

LONGEST_FILE = 400
LONGEST_FUNCTION = 60
LONGEST_LOOP = 40
VAGUE_NAMES = frozenset({"utils", "util", "common", "helpers", "helper", "misc"})
ONLY_IN_TESTS = frozenset(
    {"benchmarks", "contracts", "docs", "durability", "faults", "golden", "probes"}
)

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def modules(*folders: Path) -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def folders_with_modules(folder: Path) -> set[str]:
    return {
        child.name
        for child in folder.iterdir()
        if child.is_dir() and any(path.name != "__init__.py" for path in child.rglob("*.py"))
    }


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def functions(tree: ast.Module) -> Iterator[FunctionNode]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(node: FunctionNode) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_there_is_something_to_look_at() -> None:
    assert shown(SOURCE / "core" / "env.py") in {shown(path) for path in modules(SOURCE)}


def test_no_file_is_longer_than_400_lines() -> None:
    long = {
        shown(path): lines
        for path in modules(SOURCE, TESTS)
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST_FILE
    }
    assert not long


def test_no_function_is_longer_than_60_lines() -> None:
    long = {
        f"{shown(path)}:{node.lineno} {node.name}": length(node)
        for path in modules(SOURCE, TESTS)
        for node in functions(parse(path))
        if length(node) > LONGEST_FUNCTION
    }
    assert not long


def test_the_training_loop_fits_on_one_screen() -> None:
    loops = [
        node
        for path in modules(SOURCE / "engine")
        if path.name == "loop.py"
        for node in functions(parse(path))
        if node.name == "train"
    ]
    assert all(length(node) <= LONGEST_LOOP for node in loops)


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = [
        shown(path)
        for path in modules(SOURCE, TESTS)
        if VAGUE_NAMES & {part.removesuffix(".py") for part in path.relative_to(ROOT).parts}
    ]
    assert not vague


def test_an_init_file_holds_one_docstring_and_nothing_else() -> None:
    other = [
        shown(path)
        for path in modules(SOURCE)
        if path.name == "__init__.py"
        and path.parent != SOURCE  # the package itself offers the public names
        and not (len(body := parse(path).body) == 1 and ast.get_docstring(parse(path)) and body)
    ]
    assert not other


def test_every_folder_of_modules_is_a_package() -> None:
    bare = {
        shown(path.parent)
        for path in modules(SOURCE)
        if not (path.parent / "__init__.py").is_file()
    }
    assert not bare


def test_every_module_says_in_a_sentence_what_it_holds() -> None:
    silent = [
        shown(path)
        for path in modules(SOURCE)
        if not (ast.get_docstring(parse(path)) or "").partition("\n")[0].rstrip().endswith(".")
    ]
    assert not silent


def test_every_folder_of_tests_mirrors_a_folder_of_the_source() -> None:
    stray = folders_with_modules(TESTS) - ONLY_IN_TESTS - folders_with_modules(SOURCE)
    assert not stray


def test_every_folder_of_the_source_has_its_tests() -> None:
    untested = folders_with_modules(SOURCE) - folders_with_modules(TESTS)
    assert not untested


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("def short():\n    pass\n", 2),
        ("@decorated\ndef short():\n    pass\n", 2),
        ("async def long():\n" + "    pass\n" * 80, 81),
    ],
)
def test_a_function_is_as_long_as_its_lines_without_decorators(text: str, lines: int) -> None:
    assert [length(node) for node in functions(ast.parse(text))] == [lines]
