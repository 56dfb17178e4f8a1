"""Every test that a checklist or page cites exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CITED = re.compile(r"(tests/[\w/]+\.py)(?:::(\w+))?")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_cited_test_exists(page: Path) -> None:
    missing = []
    for file, name in CITED.findall(page.read_text("utf-8")):
        text = (ROOT / file).read_text("utf-8") if (ROOT / file).is_file() else ""
        if not text or (name and not re.search(rf"\b(def|class) {name}\b", text)):
            missing.append(f"{file}::{name}" if name else file)
    assert not missing
