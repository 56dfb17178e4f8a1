"""metrics.parquet as analysts read it: whole, current, and right after a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from longhaul.core.control import Progress
from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.jsonl import LogWriter, encode_row
from longhaul.runs.track.tracker import NOTHING, Point
from tests.runs.conftest import FakeClock

pytest.importorskip("pyarrow")
import pyarrow as pa
import pyarrow.parquet as pq

from longhaul.runs.logs.table import GROUP, TableKeeper, rebuild_table


def read(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def point(iteration: int, **more: float) -> Point:
    scalars = {"iteration": float(iteration), "episodes": 2.0, "train/loss": 1 / iteration, **more}
    return Point(8 * iteration, 1.0, {**scalars, "setting/rate": 0.5})


def test_the_file_is_current_once_it_is_old(run: RunDirectory, clock: FakeClock) -> None:
    keeper = TableKeeper(run, clock.clocks(), every_seconds=60.0)
    assert keeper.open(Progress()) == NOTHING
    keeper.write(point(1))
    assert not run.metrics_table.exists()
    clock.seconds += 61
    keeper.write(point(2))
    assert [row["iteration"] for row in read(run.metrics_table)] == [1, 2]
    keeper.write(point(3, late=7.0))
    keeper.close()
    rows = read(run.metrics_table)
    assert list(rows[0])[:3] == ["iteration", "env_steps", "episodes"]
    assert [row["late"] for row in rows] == [None, None, 7.0]
    assert "setting/rate" not in rows[0]
    assert isinstance(rows[0]["env_steps"], int)


def test_a_resumed_run_has_every_row_once(run: RunDirectory, clock: FakeClock) -> None:
    first = TableKeeper(run, clock.clocks(), every_seconds=0.0)
    first.open(Progress())
    for iteration in range(1, 8):
        first.write(point(iteration))
    first.close()
    second = TableKeeper(run, clock.clocks(), every_seconds=0.0)
    assert second.open(Progress(4, 32, 0)) == 32
    for iteration in range(5, 10):
        second.write(point(iteration))
    second.close()
    assert [row["iteration"] for row in read(run.metrics_table)] == list(range(1, 10))


def test_memory_does_not_depend_on_the_length_of_the_run(
    run: RunDirectory, clock: FakeClock
) -> None:
    keeper = TableKeeper(run, clock.clocks(), every_seconds=60.0)
    keeper.open(Progress())
    before = pa.total_allocated_bytes()
    for part in range(3):
        for iteration in range(part * GROUP, (part + 1) * GROUP):
            keeper.write(point(iteration + 1))
        clock.seconds += 3600
        keeper.write(point((part + 1) * GROUP + 1, last=1.0))
        assert pa.total_allocated_bytes() <= before
    keeper.close()
    found = pq.ParquetFile(run.metrics_table)
    assert found.metadata.num_rows == 3 * GROUP + 3
    assert found.metadata.num_row_groups == 3


def test_a_cut_removes_what_a_resumed_run_does_again(run: RunDirectory, clock: FakeClock) -> None:
    first = TableKeeper(run, clock.clocks(), every_seconds=0.0)
    first.open(Progress())
    for iteration in range(1, 8):
        first.write(point(iteration))
    first.close()
    second = TableKeeper(run, clock.clocks(), every_seconds=0.0)
    second.open(Progress(4, 32, 0))
    second.close()
    assert [row["iteration"] for row in read(run.metrics_table)] == [1, 2, 3, 4]


def test_a_damaged_file_is_made_anew(run: RunDirectory, clock: FakeClock) -> None:
    run.metrics_table.write_bytes(b"PAR1 this is no table")
    keeper = TableKeeper(run, clock.clocks(), every_seconds=0.0)
    assert keeper.open(Progress(1, 8, 0)) == NOTHING


def test_the_file_can_be_rebuilt_from_the_logs(run: RunDirectory) -> None:
    for path, name in ((run.metrics, "train/loss"), (run.timings, "time/fps")):
        log = LogWriter(path)
        for iteration in range(1, 6):
            log.append(encode_row({"iteration": iteration, "env_steps": 8 * iteration, name: 0.5}))
        log.append(b"garbage\n")
        log.close()
    assert rebuild_table(run) == 5
    assert read(run.metrics_table)[4] == {
        "iteration": 5,
        "env_steps": 40,
        "time/fps": 0.5,
        "train/loss": 0.5,
    }
