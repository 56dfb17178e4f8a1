"""Every test that a checklist or page cites exists: its file, its folder and its name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CITED = re.compile(
    r"(?P<folder>tests/[\w/]*\w)(?![\w/]*\.py)\b|(?P<file>(?:[\w]+/)*test_\w+\.py)|::(?P<name>test_\w+)"
)
FILES = {path: path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")}


def missing(line: str) -> Iterator[str]:
    """Yield the citations of a line that lead nowhere; a bare `::name` is of the file before it.

    Pages shorten paths, so a file may be cited by the end of its path.
    """
    file, texts = "", list(FILES.values())
    for cited in CITED.finditer(line):
        if folder := cited["folder"]:
            if not (ROOT / folder).is_dir():
                yield folder
        elif cited["file"]:
            file = cited["file"]
            texts = [text for path, text in FILES.items() if path.as_posix().endswith(f"/{file}")]
            if not texts:
                yield file
        elif not any(re.search(rf"\bdef {cited['name']}\(", text) for text in texts):
            yield f"{file}::{cited['name']}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_cited_test_exists(page: Path) -> None:
    lines = page.read_text("utf-8").splitlines()
    assert [
        f"{number}: {one}" for number, line in enumerate(lines, 1) for one in missing(line)
    ] == []


HERE = "tests/docs/test_citations.py"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"`{HERE}::test_every_cited_test_exists`, `tests/docs`", []),
        ("`docs/test_citations.py`, `::test_what_leads_nowhere_is_found`", []),
        ("`tests/docs/test_nothing.py`", ["tests/docs/test_nothing.py"]),
        (f"`{HERE}::test_gone`", [f"{HERE}::test_gone"]),
        (f"`{HERE}`, `::test_gone`", [f"{HERE}::test_gone"]),
        (f"`{HERE}`, `test_overlap.py::test_gone`", ["test_overlap.py::test_gone"]),
        ("see `tests/nowhere`", ["tests/nowhere"]),
    ],
)
def test_what_leads_nowhere_is_found(line: str, expected: list[str]) -> None:
    assert list(missing(line)) == expected
