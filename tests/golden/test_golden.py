from __future__ import annotations

from pathlib import Path

import pytest

from longhaul.app.build.memory import machine_kind
from tests.golden.runs import RUNS, digests, read_recorded


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
    assert digests(name, tmp_path) == recorded[name]
