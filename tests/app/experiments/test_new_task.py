"""`longhaul new-task` writes a package that trains, and whose tests pass as they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from longhaul.app.experiments.new_experiment import new_task
from longhaul.core.errors import ConfigError


def installed(package: Path, name: str) -> dict[str, str]:
    """Return variables under which the package is installed, as pip would do it."""
    facts = package / f"{name}-0.1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    (facts / "entry_points.txt").write_text(f"[longhaul.tasks]\n{name} = {name}.task:TASK\n")
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


def test_the_copied_tests_pass_as_they_are(tmp_path: Path) -> None:
    said = new_task("my_corridor", tmp_path)
    package = tmp_path / "my_corridor"
    assert "longhaul train my_corridor" in said
    assert not [path for path in package.rglob("*.py") if "recall" in path.read_text().lower()]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", "."],
        cwd=package,
        env=installed(package, "my_corridor"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Corridor", "invalid task name"),
        ("class", "invalid task name"),
        ("../out", "invalid task name"),
        ("fish", "task 'fish' already exists"),
        ("there", "exists; choose another name"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(ConfigError, match=words):
        new_task(name, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
