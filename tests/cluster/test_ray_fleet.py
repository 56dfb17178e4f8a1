"""A run whose only collector is an actor of a real Ray cluster."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.cluster.three_nodes import Trainer

pytestmark = [
    pytest.mark.ray,
    pytest.mark.thorough,
    # Not imported here: what it listens on is settled by then.
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray"),
]


def test_one_collector_on_a_cluster_writes_what_overlap_in_one_process_writes(
    tmp_path: Path,
) -> None:
    steps = 12 * 32 * 20
    here = Trainer(tmp_path / "here", "", steps=steps)
    there = Trainer(tmp_path / "there", "local", "cluster.collectors=1", steps=steps)
    assert here.process.wait() == 0
    assert there.process.wait() == 0
    for log in ("metrics.jsonl", "episodes.jsonl"):
        assert (there.run / log).read_bytes() == (here.run / log).read_bytes()
    assert len(here.rows("metrics")) == 20
