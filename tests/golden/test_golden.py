from __future__ import annotations

import sys
from pathlib import Path

import pytest

from longhaul.app.build.memory import machine_kind
from tests.golden.runs import RUNS, digests, read_recorded

# Recorded with Python 3.11. Since 3.12 `sum` rounds less, so means in metrics end otherwise.
UNLIKE = {"metrics.jsonl"} if sys.version_info >= (3, 12) else set()


@pytest.mark.thorough
@pytest.mark.parametrize("name", RUNS)
def test_a_golden_run_is_what_it_was(name: str, tmp_path: Path) -> None:
    if name == "nethack":
        pytest.importorskip("nle")
    recorded = read_recorded().get(machine_kind())
    if recorded is None:
        pytest.skip(
            f"no golden runs are recorded for {machine_kind()}; at a commit that is known to be "
            "good, record them with `python -m tests.golden.runs`"
        )
    found, known = digests(name, tmp_path), recorded[name]
    assert {file: found[file] for file in known.keys() - UNLIKE} == {
        file: digest for file, digest in known.items() if file not in UNLIKE
    }
    assert found.keys() == known.keys()
