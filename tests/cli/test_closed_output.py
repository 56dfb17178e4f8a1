"""Trainers whose output goes nowhere: they train on in silence and end by their normal code."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from longhaul.runs.directory import Status
from longhaul.runs.reader import list_runs, read_metrics
from tests.app.small import CARTPOLE, flags

ROOT = Path(__file__).resolve().parents[2]


def command(*arguments: str | Path) -> str:
    words = [sys.executable, "-m", "longhaul", "train", CARTPOLE, *flags()]
    return shlex.join([*words, *map(str, arguments)])


@pytest.mark.parametrize(
    ("flag", "redirection"),
    [
        pytest.param("--no-report", "2>&-", id="error-stream-closed"),
        pytest.param("--json", ">&- 2>&- <&-", id="all-closed"),
        pytest.param("--json", ">/dev/full", id="disk-full", marks=pytest.mark.thorough),
        pytest.param("--json", "| head -1", id="reader-gone"),
        pytest.param("--no-report", "2>&1 >/dev/null | head -1", id="error-reader-gone"),
    ],
)
def test_a_run_goes_on_without_anybody_to_show_itself_to(
    flag: str, redirection: str, tmp_path: Path
) -> None:
    script = f"{command(flag, '--runs-root', tmp_path)} {redirection}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    (run,) = list_runs(tmp_path)
    assert run.record.status is Status.FINISHED
    assert len(read_metrics(run.directory).rows) == 3


def test_an_error_keeps_its_code_although_nobody_hears_it(tmp_path: Path) -> None:
    script = command("--set", "learn.n_epochs=0", "--runs-root", tmp_path)
    done = subprocess.run(["bash", "-c", f"{script} 2>&-"], cwd=ROOT)
    assert done.returncode == 2
