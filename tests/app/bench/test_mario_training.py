"""Measuring training on the game beside other trainers."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from longhaul.app.bench import mario_training as bench
from longhaul.app.bench.mario import Speed
from longhaul.app.bench.mario_table import PresetSpeeds, Trained, Training, fastest
from longhaul.app.bench.mario_training import PeerPythons, bench_game_training
from longhaul.app.bench.training import BenchRequest
from longhaul.app.configure import ConfigSources, resolve
from longhaul.app.peers.marks import Marks
from longhaul.app.peers.network import plain_trunk
from longhaul.app.peers.sample_factory import arguments
from longhaul.app.peers.sb3_batched import lean_trunk
from longhaul.app.peers.script import read_result, run_peer_script
from longhaul.core.errors import ConfigError
from longhaul.nets.lean import CENTRE, LeanCnn
from longhaul.tasks.mario.rom import packaged_rom
from tests.app.small import SMALL

ROOT = Path(__file__).parents[3]
NOWHERE = PeerPythons(Path("no/python"), Path("no/other"))
TINY = (*SMALL, "policy.image_features=8", "policy.joint=[]", "learn.minibatch=16")


@pytest.fixture(autouse=True)
def _one_thread_afterwards() -> Iterator[None]:
    yield
    torch.set_num_threads(1)


def sources(preset: str, *overrides: str) -> ConfigSources:
    return ConfigSources("mario:standin", preset, overrides=(*TINY, *overrides))


def trained(name: str, *speeds: tuple[float, float], ours: bool = True) -> Trained:
    each = tuple(Speed(*speed) for speed in speeds)
    return Trained(name, each, shares={"collect": 0.25, "learn": 0.75} if ours else {})


def test_ours_is_measured_with_one_thread_and_two_overlapped_and_not() -> None:
    request = BenchRequest("none", total_timesteps=96, repeats=1)
    told: list[str] = []
    found = bench_game_training(sources("fast"), request, NOWHERE, told.append)
    (speeds,) = found.presets
    assert len(told) == 4
    assert all(re.match(r"fast: longhaul, . threads?.*: [\d,]+ steps/s", line) for line in told)
    assert [row.name for row in speeds.ours] == [
        "longhaul, 1 thread",
        "longhaul, 1 thread, overlap",
        "longhaul, 2 threads",
        "longhaul, 2 threads, overlap",
    ]
    values = json.loads(found.as_json())["presets"]["fast"]
    assert all(each[0] > 0 for each in values["steps_per_cpu_second"].values())
    assert all({"collect", "learn"} <= shares.keys() for shares in values["shares"].values())
    assert set(values["ratios"]) == {
        "longhaul, 1 thread, overlap / off",
        "longhaul, 2 threads, overlap / off",
    }


def test_ours_is_measured_as_exactly_as_the_peers_and_as_the_preset_has_it() -> None:
    ways = bench.our_ways(resolve(sources("pixels", "policy.image_precision=bfloat16")))
    assert len(ways) == 8
    assert {way.precision for way in ways[:4]} == {"float32"}
    assert ways[-1].title == "longhaul, bfloat16 precision, 2 threads, overlap"
    run = ways[-1].of(resolve(sources("pixels")))
    assert (run.policy.image_precision, run.threads, run.collect.overlap) == ("bfloat16", 2, True)


def test_peers_are_compared_with_our_best_of_each_precision() -> None:
    exact, rounded = trained("exact", (100, 50)), trained("rounded", (200, 80))
    rounded = dataclasses.replace(rounded, precision="bfloat16")
    peer = trained("peer", (50, 20), ours=False)
    speeds = PresetSpeeds("pixels", "alike", (exact, exact, rounded, rounded), (peer,))
    found = dict(speeds.ratios())
    assert found["exact / peer"]["steps/s"] == (2.0,)
    assert found["rounded / peer"]["steps/s"] == (4.0,)


def test_peers_that_are_not_installed_are_told_of() -> None:
    config = bench.measured_config(resolve(sources("pixels")), 4096)
    rows, left_out = bench.peer_rows(bench.PEERS, config, NOWHERE)
    assert {row.peer for row in rows} == {"sb3"}
    assert "make peers-sample-factory" in left_out[0]
    assert "make peers-mario" in left_out[1]


def test_peers_are_refused_before_anything_is_measured() -> None:
    request = BenchRequest("sb3", total_timesteps=96, repeats=1)
    with pytest.raises(ConfigError, match="use the preset 'pixels'"):
        bench_game_training(sources("fast"), request, NOWHERE)
    with pytest.raises(ConfigError, match="sample-factory, sb3-today, all"):
        bench_game_training(sources("fast"), BenchRequest("rllib"), NOWHERE)


def test_ratios_are_of_our_best_repeat_by_repeat() -> None:
    off, on = trained("off", (100, 50), (100, 40)), trained("on", (150, 60), (120, 40))
    peer = trained("peer", (50, 30), (100, 20), ours=False)
    speeds = PresetSpeeds("pixels", "alike", (off, on), (peer,), ("one left out",))
    assert fastest((off, on)) is on
    found = dict(speeds.ratios())
    assert found["on / peer"] == {"steps/s": (3.0, 1.2), "steps/CPU-s": (2.0, 2.0)}
    assert found["on / off"]["steps/s"] == (1.5, 1.2)
    text = Training("mario", (speeds,)).as_text()
    assert "alike" in text
    assert "one left out" in text
    assert re.search(r"off +25 % +75 %", text)
    assert re.search(r"on / peer +steps/s +2\.10 +3\.00 1\.20", text)


def test_who_sees_pixels_is_measured_by_pictures_alone() -> None:
    told = ("options.held_buttons=true", "policy.joint=[8]")
    config = resolve(ConfigSources("mario:standin", preset="pixels", overrides=told))
    measured = bench.measured_config(config, 4096)
    assert lean_trunk(measured).outputs == config.policy.image_features
    tiles = resolve(ConfigSources("mario:standin", preset="fast"))
    assert bench.measured_config(tiles, 4096).policy == tiles.policy


def test_a_trunk_of_plain_layers_is_the_lean_one() -> None:
    ours = LeanCnn((4, 84, 84), outputs=8)
    plain = plain_trunk((4, 84, 84), 8)
    with torch.no_grad():
        for theirs, weight in zip(plain.parameters(), ours.parameters(), strict=True):
            theirs.copy_(weight)
    images = torch.randint(0, 256, (3, 4, 84, 84), dtype=torch.uint8)
    torch.testing.assert_close(plain(images / 255.0 - CENTRE), ours(images), atol=1e-5, rtol=1e-5)


def test_marks_leave_out_what_came_before_the_first() -> None:
    cpu = iter([1.0, 2.0, 5.0])
    marks = Marks(lambda: next(cpu))
    marks(100)
    with pytest.raises(ValueError, match="too few steps"):
        marks.rates()
    marks(200)
    marks(300)
    assert marks.rates()["steps_per_cpu_second"] == pytest.approx(50.0)


def test_a_peer_that_says_something_else_is_quoted() -> None:
    assert read_result("x", '{"steps_per_second": 1}') == {"steps_per_second": 1}
    with pytest.raises(ConfigError, match="peer x wrote 'Bye!'"):
        read_result("x", "Bye!")
    with pytest.raises(ConfigError, match="peer x wrote '3'"):
        read_result("x", "3")


def test_the_last_words_of_a_peer_that_fails_are_told() -> None:
    command = [sys.executable, "-c", "raise ValueError('no emulator')"]
    with pytest.raises(ConfigError, match="ValueError: no emulator"):
        run_peer_script("x", command, limit_seconds=60)


def test_sample_factory_gets_our_batch_and_epochs() -> None:
    asked = {
        "num_envs": 32,
        "steps": 128,
        "minibatch": 512,
        "epochs": 3,
        "seed": 1,
        "iterations": 5,
        "mode": "processes",
        "lent": False,
        "learning_rate": 1e-3,
        "discount": 0.98,
        "max_grad_norm": 0.5,
    }
    given = dict(word.removeprefix("--").split("=") for word in arguments(asked, "folder"))
    assert (given["rollout"], given["batch_size"], given["num_epochs"]) == ("128", "512", "3")
    assert given["num_batches_per_epoch"] == "8"
    assert (given["async_rl"], given["serial_mode"]) == ("True", "False")


def test_another_interpreter_is_told_where_our_copy_of_the_game_is() -> None:
    free = resolve(sources("pixels"))
    assert bench.with_our_copy(free) == free.options
    if packaged_rom() is None:
        pytest.skip("there is no copy of the game")
    options = bench.with_our_copy(resolve(ConfigSources("mario", "pixels")))
    assert Path(options["rom"]).is_file()
    assert Path(options["rom"]).is_absolute()


@pytest.mark.parametrize("file", ["mario_peers.txt", "sample_factory_peer.txt"])
def test_peers_are_given_the_torch_we_use(file: str) -> None:
    pinned = re.findall(r"^torch==.*$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert len(pinned) == 1
    assert pinned[0] in (ROOT / "benchmarks" / file).read_text().splitlines()


@pytest.mark.slow
def test_every_peer_that_is_installed_is_left_behind() -> None:
    request = BenchRequest("all", total_timesteps=5 * 1024, repeats=1)
    quick = ConfigSources("mario:standin", "pixels", overrides=("collect.steps=32",))
    here = PeerPythons(ROOT / ".venv-peers/bin/python", ROOT / ".venv-sample-factory/bin/python")
    (speeds,) = bench_game_training(quick, request, here).presets
    assert speeds.peers
    best = fastest(speeds.ours)
    for peer in speeds.peers:
        assert best.wall[0] > peer.wall[0], peer.name
