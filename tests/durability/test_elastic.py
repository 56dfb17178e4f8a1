"""The bits of a run do not depend on how it is run, or longhaul refuses to go on."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.durability.elastic import cells, on_ray, table

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


@pytest.mark.ray
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray")
def test_one_collector_on_ray_writes_what_one_process_writes(quick_folder: Path) -> None:
    assert on_ray(quick_folder).found == "equal"
