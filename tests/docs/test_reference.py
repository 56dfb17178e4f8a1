from __future__ import annotations

import dataclasses
import functools
import re
from pathlib import Path
from typing import Any, Literal

import pytest
from docs.tools.commands import commands, commands_page
from docs.tools.fields import field_docs
from docs.tools.reference import own_kinds, reference_pages, write_reference
from docs.tools.wording import code, table, type_words
from typer.testing import CliRunner

from longhaul.app.build.config import RunConfig
from longhaul.cli.main import app
from longhaul.core.config import field_types, value_words
from longhaul.core.errors import EXIT_CODES
from longhaul.core.settings import Setting
from longhaul.learn.config import PPOConfig
from longhaul.schedule.config import KINDS
from longhaul.schedule.criterion import Criterion
from longhaul.tasks.kind import TaskKind

COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "reference"
HELP_WORD = re.compile(r"--[a-z][a-z-]+")
OFFERED_TO_ALL = {"--help"}


def config_classes(kind: type) -> list[type]:
    inner = [hint for hint in field_types(kind).values() if isinstance(hint, type)]
    tables = [hint for hint in inner if dataclasses.is_dataclass(hint)]
    return [kind, *(found for table in tables for found in config_classes(table))]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference_pages()


def test_the_committed_reference_is_what_the_code_says(tmp_path: Path) -> None:
    write_reference(tmp_path)
    written = {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()}
    committed = {path.name: path.read_text("utf-8") for path in COMMITTED.iterdir()}
    stale = [name for name in written | committed if written.get(name) != committed.get(name)]
    assert not stale, f"run `make docs` and commit what changes: {', '.join(stale)}"


def test_the_same_code_writes_the_same_pages(pages: dict[str, str]) -> None:
    assert reference_pages() == pages


@pytest.mark.parametrize(
    "kind", [*config_classes(RunConfig), PPOConfig], ids=lambda kind: kind.__name__
)
def test_every_config_key_has_its_meaning_on_the_page(kind: type, pages: dict[str, str]) -> None:
    docs = field_docs(kind)
    page = pages["config.md"]
    for field in dataclasses.fields(kind):
        assert docs[field.name] in page


def test_the_options_of_every_task_are_on_the_page(pages: dict[str, str]) -> None:
    page = pages["config.md"]
    for kind in own_kinds():
        for field in dataclasses.fields(kind.options):
            is_table = dataclasses.is_dataclass(field_types(kind.options)[field.name])
            shown = f"[options.{field.name}]" if is_table else f"`options.{field.name}`"
            assert shown in page


@pytest.mark.parametrize("kind", own_kinds(), ids=lambda kind: kind.name)
def test_every_default_on_the_page_is_what_the_options_begin_with(
    kind: TaskKind, pages: dict[str, str]
) -> None:
    section = pages["config.md"].split(f"## [options] of `{kind.name}`")[1]
    rows = re.findall(
        r"^\| `options\.([\w.]+)` \| .*? \| (`[^`]*`|) \| ",
        section.partition("\n## [options] of ")[0],
        re.M,
    )
    begun = kind.options()
    assert rows
    for key, shown in rows:
        value = functools.reduce(getattr, key.split("."), begun)
        assert shown == ("" if value is None else code(value)), key


def test_every_controller_has_a_section(pages: dict[str, str]) -> None:
    headings = re.findall(r"^## (\w+)$", pages["schedule.md"], re.M)
    assert headings[: len(KINDS)] == list(KINDS)


def test_every_link_inside_a_page_leads_to_one_of_its_headings(pages: dict[str, str]) -> None:
    for page in pages.values():
        headings = {heading.lower() for heading in re.findall(r"^## (.+)$", page, re.M)}
        assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= headings


def test_every_exit_code_is_on_the_page(pages: dict[str, str]) -> None:
    page = pages["exit-codes.md"]
    assert all(f"| {code} | {meaning} |" in page for code, meaning in EXIT_CODES.items())


@pytest.mark.parametrize("name", [name for name, _ in commands(app, "longhaul")])
def test_a_command_takes_the_options_its_section_names(name: str) -> None:
    section = commands_page().split(f"## {name}\n")[1].split("\n## ")[0]
    words = name.split()[1:]
    # Wide enough that no option's name is broken across lines.
    helped = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "400", "NO_COLOR": "1"})
    assert helped.exit_code == 0
    shown = {option for row in section.split("\n| ") for option in HELP_WORD.findall(row)}
    offered = set(HELP_WORD.findall(helped.stdout)) - OFFERED_TO_ALL
    assert shown == offered


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (int, "integer"),
        (float | None, "number"),
        (tuple[int, ...], "list of integers"),
        (tuple[float, float], "list of 2 numbers"),
        (list[str] | None, "list of texts"),
        (dict[str, Any], "table"),
        (tuple[dict[str, Any], ...], "list of tables"),
        (Literal["a", "b"], '`"a"`, `"b"`'),
        (Literal["a"] | Literal["b", "c"], '`"a"`, `"b"`, `"c"`'),
        (int | str, "integer or text"),
        (Setting[float], "name of a setting (number)"),
        (tuple[Criterion, ...], "list of tables, each a [Criterion](#criterion)"),
    ],
)
def test_a_type_is_told_in_words(hint: Any, words: str) -> None:
    assert type_words(hint) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, "true"),
        (3e-4, "0.0003"),
        (0.1 + 0.2, "0.30000000000000004"),
        ((64, 64), "[64, 64]"),
        ("auto", '"auto"'),
        ({"a": 1}, "{a = 1}"),
    ],
)
def test_a_value_is_written_as_toml_writes_it(value: object, words: str) -> None:
    assert value_words(value) == words


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert table(["a"], [["x | y"]]).splitlines()[2] == "| x &#124; y |"
