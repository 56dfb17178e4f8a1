"""What users are advised to install is ours: the distribution is called longhaul-rl."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ADVISED = re.compile(r"pip install (?:-\w+ )*['\"]?(longhaul(?![-\w])[^\s'\"]*)")


def texts() -> list[Path]:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    return [*pages, *(ROOT / "src").rglob("*.py"), *(ROOT / "examples").rglob("*.toml")]


def test_no_text_advises_another_projects_package() -> None:
    wrong = [f"{path}: {found}" for path in texts() for found in ADVISED.findall(path.read_text())]
    assert not wrong


def test_the_distribution_is_ours_and_names_every_advised_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == "longhaul-rl"
    extras = {
        extra
        for path in texts()
        for extra in re.findall(r"longhaul-rl\[(\w+)\]", path.read_text("utf-8"))
    }
    assert extras <= set(project["optional-dependencies"])
