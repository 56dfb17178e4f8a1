"""The page `From Python` runs from top to bottom as one script."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@pytest.mark.thorough
def test_the_page_runs_as_one_script(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "guide" / "python.md").read_text("utf-8")
    script = tmp_path / "page.py"
    script.write_text("\n".join(BLOCK.findall(page)))
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, *_, last = done.stdout.splitlines()
    assert float(first) > 60
    assert last.startswith("ended by the listener StopWhenGood: the mean return is")
    assert (tmp_path / "cartpole" / "policy.safetensors").exists()
