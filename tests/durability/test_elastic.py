"""The bits of a run do not depend on how it is run, or longhaul refuses to go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.elastic import cells, table

pytestmark = pytest.mark.thorough
REFUSED = {
    "resumed with env.runtime=serial",
    "resumed with threads=2",
    "resumed with deterministic=false",
    "resumed with collect.overlap=false",
    "resumed with env.threads=2",
}


def test_every_cell_is_equal_or_refused(quick_folder: Path) -> None:
    found = list(cells(quick_folder))
    assert not [cell for cell in found if cell.found == "different"], table(found)
    assert {cell.change for cell in found if cell.found == "refused"} == REFUSED
