"""Whatever a cartridge and a state hold, a console stays in its row and the process alive."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tasks.mario.console.nonsense import run_nonsense

ROOT = Path(__file__).resolve().parents[3]


@settings(max_examples=40)
@given(number=st.integers(0, 2), seed=st.integers(0, 2**32 - 1), draw=st.booleans())
def test_nonsense_neither_crashes_nor_leaves_its_row(
    number: int,
    seed: int,
    draw: bool,  # noqa: FBT001 - hypothesis hands it over by name
) -> None:
    run_nonsense(number, seed, draw=draw)


def run_apart(cartridges: int, states: int, variables: dict[str, str]) -> None:
    """Run nonsense in a process of its own, which may die of it."""
    found = subprocess.run(
        [sys.executable, "-m", "tests.tasks.mario.console.nonsense", str(cartridges), str(states)],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr


@pytest.mark.slow
def test_much_nonsense_neither_kills_a_process_nor_takes_memory(tmp_path: Path) -> None:
    run_apart(50, 400, {"NUMBA_CACHE_DIR": str(tmp_path)})


@pytest.mark.slow
def test_no_index_of_the_kernels_is_ever_out_of_bounds(tmp_path: Path) -> None:
    """Numba compiles them once more, with a check of every index."""
    run_apart(10, 100, {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_BOUNDSCHECK": "1"})
