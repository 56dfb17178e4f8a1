"""The repository's own promises: pinned versions, no machine's traces, no code run from files."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from longhaul.core.errors import EXIT_CODES

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "longhaul"

PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[0-9][A-Za-z0-9.+!-]*)$")
TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)
MENTIONED_TARGET = re.compile(r"(?:^|`)make ([a-z-]+)", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")

# Written so that no pattern matches its own text.
MACHINE_PATH = re.compile(r"(?<![\w./~-])/(?:work|tmp|root|home|opt|mnt|Users)(?:/\w|\b(?!/))")
REGISTRY_HOST = re.compile(
    r"pypi\.(?:org|python)|python(?:hosted)\.org|download\.pytorch|artifactor[y]|dev[p]i|nexus\."
    r"|(?:--|PIP_)(?:extra[-_])?index[-_]url\s*[= ]\s*\w|file:/{2}",
    re.IGNORECASE,
)

MADE_BY_TOOLS = frozenset({"runs", "site", "build", "dist", "htmlcov", "__pycache__"})
HIDDEN_BUT_OURS = frozenset({".ci", ".gitignore", ".pre-commit-config.yaml"})

PICKLING = frozenset({"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve"})
RUNS_TEXT = frozenset({"eval", "exec", "compile", "__import__"})
READS_PICKLE = frozenset({"torch.load", "torch.jit.load", "torch.serialization.load"})


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def named_requirements() -> list[Requirement]:
    content = project()
    extras = content["project"]["optional-dependencies"].values()
    lists = [content["build-system"]["requires"], content["project"]["dependencies"], *extras]
    return [Requirement(text) for listed in lists for text in listed]


def pin_lines() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def pins() -> dict[str, Version]:
    found = [match for line in pin_lines() if (match := PIN.match(line))]
    return {canonicalize_name(pin["name"]): Version(pin["version"]) for pin in found}


def own_files() -> Iterator[Path]:
    """Yield the files people wrote, without asking git, so that an unpacked archive works too."""
    for folder, folders, names in os.walk(ROOT):
        top = Path(folder) == ROOT
        folders[:] = [
            name
            for name in folders
            if name not in MADE_BY_TOOLS
            and not name.endswith(".egg-info")
            and (not name.startswith(".") or (top and name in HIDDEN_BUT_OURS))
        ]
        for name in names:
            if not name.startswith(".") or name in HIDDEN_BUT_OURS:
                yield Path(folder) / name


def own_text() -> Iterator[tuple[str, str]]:
    for path in own_files():
        content = path.read_bytes()
        if b"\0" not in content:
            yield path.relative_to(ROOT).as_posix(), content.decode("utf-8")


def dotted(node: ast.expr) -> str:
    """Return `a.b.c` for a chain of names, and the empty string for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (front := dotted(node.value)):
        return f"{front}.{node.attr}"
    return ""


def imported(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {name.name for name in node.names}
    if isinstance(node, ast.ImportFrom) and node.module:
        return {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return set()


def unsafe(tree: ast.AST) -> Iterator[str]:
    """Yield everything in the tree that could run code found in a file."""
    for node in ast.walk(tree):
        names = imported(node)
        yield from (name for name in names if name.partition(".")[0] in PICKLING)
        yield from names & READS_PICKLE
        if isinstance(node, ast.Call):
            called = dotted(node.func)
            if called in RUNS_TEXT | READS_PICKLE:
                yield called
            yield from (
                f"{called}(allow_pickle=...)"
                for keyword in node.keywords
                if keyword.arg == "allow_pickle"
                and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
            )


def test_every_constraint_is_one_exact_version() -> None:
    assert [line for line in pin_lines() if not PIN.match(line)] == []
    assert len(pins()) == len(pin_lines())


def test_every_named_dependency_is_pinned_within_its_range() -> None:
    pinned = pins()
    wrong = [
        str(requirement)
        for requirement in named_requirements()
        if (version := pinned.get(canonicalize_name(requirement.name))) is None
        or version not in requirement.specifier
    ]
    assert not wrong


def test_torch_is_pinned_without_a_build_suffix() -> None:
    assert "torch==2.13.0" in pin_lines()


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    found = {
        name: match.group()
        for name, text in own_text()
        if (match := MACHINE_PATH.search(text)) is not None
    }
    assert not found


def test_no_file_names_a_package_index() -> None:
    found = {
        name: match.group()
        for name, text in own_text()
        if (match := REGISTRY_HOST.search(text)) is not None
    }
    assert not found


@pytest.mark.parametrize("text", ["cd {}work/main", "'{}tmp'", "see {}home/me/x", "({}opt/a)"])
def test_a_machine_path_is_recognized(text: str) -> None:
    assert MACHINE_PATH.search(text.format("/"))


@pytest.mark.parametrize("text", ["envs/worker.py", "a/tmp", "https://example.com/home", "./tmp"])
def test_a_relative_path_is_not_taken_for_a_machine_path(text: str) -> None:
    assert not MACHINE_PATH.search(text)


def test_nothing_in_the_source_can_run_code_from_a_file() -> None:
    # Worker processes are the trainer's own children: their messages come from no file.
    between_processes = SOURCE / "envs" / "processes"
    # The NES processor writes its own switch over all opcodes from the tables beside it.
    from_own_tables = SOURCE / "tasks" / "mario" / "console" / "cpu.py"
    # Foreign weights are read in torch's safe mode, see the next test.
    weights_alone = SOURCE / "app" / "artifacts" / "import_torch.py"
    found = {
        path.relative_to(ROOT).as_posix(): problems
        for path in sorted(SOURCE.rglob("*.py"))
        if (problems := list(unsafe(ast.parse(path.read_text(encoding="utf-8")))))
        and not (path.is_relative_to(between_processes) and problems == ["pickle"])
        and not (path == from_own_tables and problems == ["exec", "compile"])
        and not (path == weights_alone and problems == ["torch.load"])
    }
    assert not found


def test_foreign_weights_are_read_as_weights_alone() -> None:
    tree = ast.parse((SOURCE / "app" / "artifacts" / "import_torch.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    (load,) = [node for node in calls if dotted(node.func) == "torch.load"]
    (flag,) = [keyword.value for keyword in load.keywords if keyword.arg == "weights_only"]
    assert isinstance(flag, ast.Constant)
    assert flag.value is True


def test_messages_between_processes_are_never_read_from_a_file() -> None:
    files = re.compile(r"pickle\.(load|dump|Unpickler)\b")
    folder = SOURCE / "envs" / "processes"
    assert not [path.name for path in folder.glob("*.py") if files.search(path.read_text())]


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads",
        "import torch\ntorch.load(path, weights_only=True)",
        "from torch import load",
        "eval(text)",
        "numpy.load(path, allow_pickle=True)",
    ],
)
def test_unsafe_code_is_recognized(text: str) -> None:
    assert list(unsafe(ast.parse(text)))


@pytest.mark.parametrize("text", ["policy.eval()", "re.compile(x)", "load(a, allow_pickle=False)"])
def test_harmless_code_is_left_alone(text: str) -> None:
    assert not list(unsafe(ast.parse(text)))


def test_the_changelog_has_a_place_for_unreleased_changes() -> None:
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()


def test_every_make_command_in_the_documentation_exists() -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    missing = {
        page.relative_to(ROOT).as_posix(): unknown
        for page in pages
        if (unknown := set(MENTIONED_TARGET.findall(page.read_text(encoding="utf-8"))) - targets)
    }
    assert not missing


def test_the_readme_shows_both_commands() -> None:
    shown = set(MENTIONED_TARGET.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    assert {"train", "test"} <= shown


def test_the_make_targets_of_the_readme_each_have_a_line_of_help() -> None:
    lines = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
    helped = {match[1] for line in lines if "## " in line and (match := TARGET.match(line))}
    assert {"train", "test", "check", "bench", "docs", "clean", "help"} <= helped


def test_every_relative_link_in_the_documentation_leads_to_a_file() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = {
        f"{page.relative_to(ROOT).as_posix()} -> {target}"
        for page in pages
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    }
    assert not broken


def test_every_page_of_the_documentation_is_in_the_table_of_contents() -> None:
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if not re.search(rf"\s{re.escape(page)}$", contents, re.M)] == []


def test_the_page_of_exit_codes_names_every_code() -> None:
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    assert [code for code in EXIT_CODES if not re.search(rf"^\| *{code} *\|", page, re.M)] == []


def test_the_ci_script_runs_the_test_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "set -euo pipefail" in script
    assert "make test" in script
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
