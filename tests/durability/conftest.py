"""One server of children for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.durability import native
from tests.durability.child import Children, children
from tests.durability.power import scratch


@pytest.fixture(scope="session")
def crew() -> Iterator[Children]:
    """Return what trains in children."""
    if native.compiler() is None:
        pytest.skip("no C compiler: install gcc to kill at file operations")
    with TemporaryDirectory(dir=scratch()) as folder, children(Path(folder)) as found:
        yield found


@pytest.fixture
def quick_folder() -> Iterator[Path]:
    """Return a folder that is in memory where that is possible."""
    with TemporaryDirectory(dir=scratch()) as folder:
        yield Path(folder)
