"""Measuring the game beside other people's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from longhaul.app.bench.env import EnvBenchRequest
from longhaul.app.bench.mario import (
    PEER_TITLES,
    PIXELS_1,
    MarioBenchmark,
    Speed,
    Speeds,
    bench_mario,
    measure,
    peer_speed,
)
from longhaul.core.errors import ConfigError
from tests.tasks.mario.cartridges import game_or_skip

QUICK = EnvBenchRequest(num_envs=2, peer="all", seconds=0.02, repeats=1)


@pytest.mark.emulator
def test_everything_of_ours_is_measured_and_missing_peers_are_told(tmp_path: Path) -> None:
    game_or_skip()
    found = bench_mario(QUICK, python=tmp_path / "missing")
    told = json.loads(found.as_json())
    assert len(told["steps_per_second"]) == 8
    assert all(speed > 0 for each in told["steps_per_second"].values() for speed in each)
    assert "make peers-mario" in found.as_text()
    assert len(told["costs"]) == 5
    assert [len(rounds) for rounds in told["scaling"].values()] == [3, 3]


def test_ratios_per_core_are_of_processor_time() -> None:
    one, other = Speed(10.0, 500.0), Speed(20.0, 10.0)
    found = dict(
        MarioBenchmark(
            "", (Speeds(PIXELS_1, (one,)), Speeds(PEER_TITLES["nes-py"], (other,))), (), ()
        ).ratios()
    )
    assert found == {f"per core: {PIXELS_1} / {PEER_TITLES['nes-py']}": (50.0,)}


@pytest.mark.emulator
def test_a_peer_that_is_not_known_is_refused() -> None:
    game_or_skip()
    with pytest.raises(ConfigError, match="nes-py"):
        bench_mario(EnvBenchRequest(peer="sb3"), python=Path("x"))


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

    speed = measure(advance, 16, 0.02)
    assert speed.per_core is not None
    assert 0 < speed.wall <= speed.per_core * 1.5
