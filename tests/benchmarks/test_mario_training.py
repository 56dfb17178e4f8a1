"""Measuring training on the game beside other trainers."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from benchmarks.beside import Way, our_ways, ratios
from benchmarks.mario_training import PeerPythons, bench_game_training
from benchmarks.peers.marks import Marks
from benchmarks.peers.network import plain_trunk
from benchmarks.peers.sample_factory import arguments
from benchmarks.peers.sb3_batched import lean_trunk
from benchmarks.processes import read_result, run_peer_script

from benchmarks import mario_training as bench
from longhaul.app.bench.table import Speeds
from longhaul.app.bench.training import BenchRequest
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.core.errors import ConfigError
from longhaul.nets.cnn import CENTER, LeanCnn
from longhaul.tasks.mario.rom import packaged_rom
from tests.app.small import SMALL

ROOT = Path(__file__).parents[2]
NOWHERE = PeerPythons(Path("no/python"), Path("no/other"))
TINY = (*SMALL, "policy.image_features=8", "policy.joint=[]", "learn.minibatch_size=16")


@pytest.fixture(autouse=True)
def _one_thread_afterwards() -> Iterator[None]:
    yield
    torch.set_num_threads(1)


def sources(preset: str, *overrides: str) -> ConfigSources:
    return ConfigSources("mario:standin", preset, overrides=(*TINY, *overrides))


def speeds(name: str, *pairs: tuple[float, float]) -> Speeds:
    return Speeds(name, tuple(wall for wall, _ in pairs), tuple(cpu for _, cpu in pairs))


def test_ours_is_measured_with_one_thread_and_two_overlapped_and_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    request = BenchRequest(total_timesteps=96, repeats=1)
    found = bench_game_training(sources("fast"), request)["fast"]
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 4
    assert all(re.match(r"fast: longhaul, . threads?.*: [\d,]+ steps/s", line) for line in told)
    assert [one.name for one in found.speeds] == [
        "longhaul, 1 thread",
        "longhaul, 1 thread, overlap",
        "longhaul, 2 threads",
        "longhaul, 2 threads, overlap",
    ]
    assert all(one.per_cpu_second[0] > 0 for one in found.speeds)
    assert all({"collect", "learn"} <= split.keys() for split in found.values["shares"].values())
    assert set(found.ratios) == {
        f"longhaul, {threads}, overlap / off, {of}"
        for threads in ("1 thread", "2 threads")
        for of in ("steps/s", "steps/CPU-s")
    }


def test_ours_is_measured_as_exactly_as_the_peers_and_as_the_preset_has_it() -> None:
    ways = our_ways("bfloat16")
    assert len(ways) == 8
    assert {way.precision for way in ways[:4]} == {"float32"}
    assert ways[-1].title == "longhaul, bfloat16 precision, 2 threads, overlap"
    run = ways[-1].of(resolve(sources("pixels")))
    assert (run.policy.image_precision, run.threads, run.collect.overlap) == ("bfloat16", 2, True)


def test_peers_are_compared_with_our_best_of_each_precision() -> None:
    ours = {
        Way("float32", 1, overlap=False): speeds("off", (100, 50), (100, 40)),
        Way("float32", 1, overlap=True): speeds("on", (150, 60), (120, 40)),
        Way("bfloat16", 1, overlap=False): speeds("rounded", (200, 90), (200, 90)),
    }
    peer = speeds("peer", (50, 30), (100, 20))
    found = ratios(ours, {one.name: one for one in (*ours.values(), peer)})
    assert found["on / peer, steps/s"] == (3.0, 1.2)
    assert found["on / peer, steps/CPU-s"] == (2.0, 2.0)
    assert found["rounded / peer, steps/s"] == (4.0, 2.0)
    assert found["on / off, steps/s"] == (1.5, 1.2)
    assert "off / peer, steps/s" not in found


def test_peers_that_are_not_installed_are_told_of() -> None:
    config = bench.measured_config(resolve(sources("pixels")), 4096)
    rows, left_out = bench.peer_rows(bench.PEERS, config, NOWHERE)
    assert all(row.title.startswith("sb3") for row in rows)
    assert "make peers-sample-factory" in left_out[0]
    assert "make peers-mario" in left_out[1]


def test_peers_are_refused_before_anything_is_measured() -> None:
    request = BenchRequest(total_timesteps=96, repeats=1)
    with pytest.raises(ConfigError, match="use the preset 'pixels'"):
        bench_game_training(sources("fast"), request, ("sb3",), NOWHERE)


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
    torch.testing.assert_close(plain(images / 255.0 - CENTER), ours(images), atol=1e-5, rtol=1e-5)


def test_marks_leave_out_what_came_before_the_first() -> None:
    cpu = iter([1.0, 2.0, 5.0])
    marks = Marks(lambda: next(cpu))
    marks(100)
    with pytest.raises(ValueError, match="too few steps"):
        marks.rates()
    marks(200)
    marks(300)
    assert marks.rates()["steps_per_cpu_second"] == pytest.approx(50.0)
    assert marks.rates(skip=1)["steps_per_cpu_second"] == pytest.approx(100 / 3)


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
        "minibatch_size": 512,
        "n_epochs": 3,
        "seed": 1,
        "iterations": 5,
        "mode": "processes",
        "lent": False,
        "learning_rate": 1e-3,
        "gamma": 0.98,
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
@pytest.mark.measures
def test_every_peer_that_is_installed_is_left_behind(
    record_property: Callable[[str, object], None],
) -> None:
    request = BenchRequest(total_timesteps=5 * 1024, repeats=1)
    quick = ConfigSources("mario:standin", "pixels", overrides=("collect.num_steps=32",))
    here = PeerPythons(ROOT / ".venv-peers/bin/python", ROOT / ".venv-sample-factory/bin/python")
    found = bench_game_training(quick, request, bench.PEERS, here)["pixels"]
    ours = [one for one in found.speeds if one.name.startswith("longhaul")]
    peers = [one for one in found.speeds if one not in ours]
    assert peers
    best = max(one.median for one in ours if "bfloat16" not in one.name)
    for peer in peers:
        record_property(f"our steps/s over those of {peer.name}", f"{best / peer.median:.2f}")
    for peer in peers:
        assert best > peer.median, peer.name
