"""What processes take, checked against the system's own books."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from longhaul.runs.logs.jsonl import read_rows
from longhaul.runs.monitor.resources import NoCards, NvidiaCards, ResourceSampler
from tests.runs.conftest import FakeClock


@dataclass(frozen=True)
class Memory:
    used: int
    total: int


@dataclass(frozen=True)
class Rates:
    gpu: int


class Library:
    """NVIDIA's library as far as it is asked, with two cards."""

    def __init__(self) -> None:
        self.load = 0

    def nvmlInit(self) -> None:  # noqa: N802 - the library's own name
        return

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:  # noqa: N802
        return number

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Memory:  # noqa: N802
        return Memory(1000 + handle, 4000)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Rates:  # noqa: N802
        self.load += 10
        return Rates(self.load)


def sampler(folder: Path, clock: FakeClock, **options: Any) -> ResourceSampler:
    options = {"every_seconds": 0.0, "cards": NoCards(), **options}
    return ResourceSampler(folder / "resources.jsonl", clock.clocks(), **options)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    code = """
import sys
block = bytearray(30_000_000)
sys.stdout.write("ready")
sys.stdout.flush()
sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.read(5) == b"ready"
    yield process
    process.communicate()


def test_memory_is_what_the_system_says(tmp_path: Path, clock: FakeClock) -> None:
    with sampler(tmp_path, clock) as looking:
        looking.look()
        found = looking.take()
    assert found["mem/rss"] == pytest.approx(psutil.Process().memory_info().rss, rel=0.1)
    assert 0 < found["mem/uss"] <= found["mem/rss"]
    assert 0 <= found["mem/system_percent"] <= 100


def test_a_look_is_told_once(tmp_path: Path, clock: FakeClock) -> None:
    with sampler(tmp_path, clock) as looking:
        assert looking.take() == {}
        looking.look()
        assert looking.take()
        assert looking.take() == {}


def test_every_process_is_in_the_log(
    tmp_path: Path, clock: FakeClock, child: subprocess.Popen[bytes]
) -> None:
    with sampler(tmp_path, clock) as looking:
        looking.look()
        found = looking.take()
    (row,) = read_rows(tmp_path / "resources.jsonl").rows
    uses = {use["pid"]: use for use in row["processes"]}
    assert uses[child.pid]["rss"] > 30_000_000
    assert uses[child.pid]["uss"] > 30_000_000
    assert found["mem/workers_rss"] >= uses[child.pid]["rss"]
    assert found["mem/processes"] >= 1


def test_cards_are_looked_at_without_a_child_process(tmp_path: Path, clock: FakeClock) -> None:
    with sampler(tmp_path, clock, cards=NvidiaCards(Library())) as looking:
        looking.look()
        looking.look()
        found = looking.take()
    assert found["gpu/count"] == 2
    assert (found["gpu/0_percent"], found["gpu/1_percent"]) == (30.0, 40.0)
    assert found["gpu/0_percent_mean"] == 20.0
    assert found["gpu/1_memory"] == 1001.0
    assert found["gpu/1_memory_total"] == 4000.0
