"""Measuring the game beside other people's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from benchmarks.mario import (
    PEER_TITLES,
    PIXELS_1,
    as_speeds,
    bench_mario,
    measure,
    peer_speed,
    ratios,
)

from longhaul.app.bench.training import EnvBenchRequest
from longhaul.core.errors import ConfigError
from tests.tasks.mario.cartridges import game_or_skip

QUICK = EnvBenchRequest(num_envs=2, seconds=0.02, repeats=1)


@pytest.mark.emulator
def test_everything_of_ours_is_measured_and_missing_peers_are_told(tmp_path: Path) -> None:
    game_or_skip()
    found = bench_mario(QUICK, tuple(PEER_TITLES), python=tmp_path / "missing")
    told = json.loads(found.as_json())
    assert len(told["steps_per_second"]) == 8
    assert all(speed > 0 for each in told["steps_per_second"].values() for speed in each)
    assert "make peers-mario" in found.as_text()
    assert len(told["costs"]) == 5


def test_ratios_per_core_are_of_processor_time() -> None:
    peer = PEER_TITLES["nes-py"]
    measured = {PIXELS_1: as_speeds(PIXELS_1, [(10.0, 500.0)]), peer: as_speeds(peer, [(20.0, 10)])}
    assert ratios(measured) == {f"per core: {PIXELS_1} / {peer}": (50.0,)}


def test_work_of_other_processes_has_no_speed_per_core() -> None:
    assert as_speeds("x", [(10.0, 5.0), (10.0, None)]).per_cpu_second == ()


def test_a_python_without_the_peers_is_told() -> None:
    with pytest.raises(ConfigError, match="cannot be measured"):
        peer_speed("sync", Path(sys.executable), 1, 0.01)


def test_speeds_count_all_games_of_a_step() -> None:
    steps = 0

    def advance(number: int) -> None:
        nonlocal steps
        assert number == steps
        steps += 1
        sum(range(1000))

    wall, by_cpu = measure(advance, 16, 0.02)
    assert by_cpu is not None
    assert 0 < wall <= by_cpu * 1.5
