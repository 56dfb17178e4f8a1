"""The matrix over environments, rollouts and overlap."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from benchmarks.overlap_matrix import COLUMNS, main

pytestmark = pytest.mark.thorough


def test_every_cell_is_a_line_with_its_speed_or_its_error(tmp_path: Path) -> None:
    out = tmp_path / "matrix.csv"
    words = "probe:recall --num-envs 2 --num-steps 8 12 --iterations 6 --repeats 2 --set"
    chunk = "collect.chunk=8"
    main([*words.split(), chunk, "--set", "learn.replay.enabled=true", "--out", str(out)])
    with out.open(encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == list(COLUMNS)
    measured = [row for row in found if not row["error"]]
    assert [(row["mode"], row["rollout"], row["repeat"]) for row in measured] == [
        ("sync", "8", "1"),
        ("overlap", "8", "1"),
        ("sync", "8", "2"),
        ("overlap", "8", "2"),
    ]
    for row in measured:
        updates = float(row["updates_per_sec_mean"])
        assert float(row["steps_per_sec_mean"]) == pytest.approx(updates * 2 * 8, rel=0.05)
        assert 0 < float(row["replay_fill_final"]) <= 1
        assert row["gpu_util_mean_window"] == ""
    refused = [row for row in found if row["error"]]
    assert {row["rollout"] for row in refused} == {"12"}
    assert all("collect.chunk = 8 must divide" in row["error"] for row in refused)
