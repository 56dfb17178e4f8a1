"""NetHack on a machine without NLE."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BLOCKER = """
import sys

class WithoutNle:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "nle":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, WithoutNle())
"""


def test_training_without_nle_ends_in_one_line_that_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLOCKER)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-m", "longhaul", "train", "nethack", "--runs-root", "runs"]
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 3
    (line,) = ended.stderr.splitlines()
    assert line.startswith("longhaul: NetHack is not installed: ")
    assert "pip install -e '.[nethack]'" in line
    assert "pip install nle" in line
