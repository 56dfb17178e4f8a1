"""Exact resume on machines with several cores, whatever the environment says of threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Products of these many rows differ in the last bits between one thread and two.
ODD_ROWS = (5, 6, 7, 10)
PROGRAM = """
import os
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:{cores}])
from longhaul.app.diagnose.verify import Interruption, verify
from tests.app.small import CARTPOLE, small_config
for count in {counts}:
    overrides = ("collect.overlap=true", "policy.hidden=[64, 64]", f"num_envs={{count}}")
    trial = Interruption(iterations=3, interruptions=1)
    result = verify(small_config(CARTPOLE, *overrides), trial)
    assert result.equal, result.as_text()
"""


@pytest.mark.parametrize(
    ("omp", "cores"),
    [
        pytest.param(None, 2, id="unset-2-cores"),
        pytest.param(None, 1, id="unset-1-core", marks=pytest.mark.thorough),
        pytest.param("1", 2, id="one-2-cores", marks=pytest.mark.thorough),
        pytest.param("2", 2, id="two-2-cores"),
    ],
)
def test_an_overlapped_run_resumes_exactly_with_any_number_of_rows(
    omp: str | None, cores: int
) -> None:
    if len(os.sched_getaffinity(0)) < cores:
        pytest.skip(f"this machine has fewer than {cores} cores")
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    if omp is not None:
        environment["OMP_NUM_THREADS"] = omp
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(cores=cores, counts=ODD_ROWS)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
