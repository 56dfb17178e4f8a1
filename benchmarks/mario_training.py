"""Training on Mario a second: ours, and other trainers with our consoles and without."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.peers import sample_factory as peer_sample_factory
from benchmarks.peers import sb3_today as peer_sb3_today
from benchmarks.processes import CpuStopwatch, isolated, missing, run_peer_script

from benchmarks import command
from longhaul.app.bench.table import Ratio, Section, Speeds, SpeedTable, ratio
from longhaul.app.bench.training import (
    BenchRequest,
    measure_run,
    only_training,
    time_shares,
)
from longhaul.app.build.config import RunConfig
from longhaul.app.build.sources import ConfigSources, Reference, resolve, to_values
from longhaul.nets.config import ImagePrecision
from longhaul.tasks.mario.rom import STAND_IN, find_rom

EQUAL_PRECISION: ImagePrecision = "float32"
"""What every peer computes with."""
PEERS = ("sb3", "sample-factory", "sb3-today")
BOTH_PRESETS = ("fast", "pixels")
THREADS = (1, 2)
ITERATIONS = {"tiles": 12, "pixels": 4}
"""Measured by default, after the first, by what is seen: about as long for both."""
TODAY = {"num_envs": 8, "steps": 64, "iterations": 3, "threads": 2}
"""Without our consoles 4,096 steps take half a minute; what one costs does not depend on it."""
PEER_SECONDS = 1800.0
NEEDED = {
    "sb3": ("stable_baselines3", "torch"),
    "sample-factory": ("sample_factory", "torch"),
    "sb3-today": ("stable_baselines3", "torch", "gym_super_mario_bros"),
}
"""What a peer's interpreter must have; asked before anything is measured, which takes minutes."""


@dataclass(frozen=True, slots=True)
class PeerPythons:
    """The interpreters that have the peers; see the Makefile."""

    today: Path = Path(".venv-peers/bin/python")
    sample_factory: Path = Path(".venv-sample-factory/bin/python")


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run ours."""

    precision: ImagePrecision
    threads: int
    overlap: bool

    @property
    def title(self) -> str:
        """What is said of it."""
        precision = "" if self.precision == EQUAL_PRECISION else f", {self.precision} precision"
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        return f"longhaul{precision}, {threads}{', overlap' * self.overlap}"

    def of(self, config: RunConfig) -> RunConfig:
        """Return a configuration run this way."""
        return replace(
            config,
            threads=self.threads,
            collect=replace(config.collect, overlap=self.overlap),
            policy=replace(config.policy, image_precision=self.precision),
        )


@dataclass(frozen=True, slots=True)
class PeerRow:
    """One way to run a peer."""

    peer: str
    title: str
    measure: Callable[[RunConfig], dict[str, Any]]


def bench_game_training(
    sources: ConfigSources,
    request: BenchRequest,
    peers: Sequence[str] = (),
    pythons: PeerPythons | None = None,
) -> dict[str, SpeedTable]:
    """Measure one preset beside the peers; without one, `fast` alone and `pixels` beside them.

    Every measurement is printed as it is taken: all of them take many minutes.
    """
    found = {}
    for preset in (sources.preset,) if sources.preset else BOTH_PRESETS:
        config = measured_config(resolve(replace(sources, preset=preset)), request.total_timesteps)
        is_alone = not sources.preset and preset != "pixels"
        rows, left_out = peer_rows(() if is_alone else peers, config, pythons or PeerPythons())
        for words in left_out:
            command.notify(words)
        found[preset] = bench_preset(preset, config, rows, request.repeats, left_out)
    return found


def bench_preset(
    preset: str,
    config: RunConfig,
    rows: tuple[PeerRow, ...],
    repeats: int,
    left_out: tuple[str, ...] = (),
) -> SpeedTable:
    """Measure all systems in turn, again and again."""
    each: dict[str, list[tuple[float, float]]] = {}
    shares: dict[str, dict[str, float]] = {}
    ways = {way.title: way for way in our_ways(config)}

    def keep(title: str, speed: tuple[float, float]) -> None:
        each.setdefault(title, []).append(speed)
        wall, by_cpu = speed
        command.notify(f"{preset}: {title}: {wall:,.0f} steps/s, {by_cpu:,.0f} steps/CPU-s")

    for _ in range(repeats):
        for title, way in ways.items():
            speed, shares[title] = measure_ours(way.of(config))
            keep(title, speed)
        for row in rows:
            keep(row.title, speed_of(row.measure(config)))
    measured = {
        title: Speeds(title, tuple(wall for wall, _ in pairs), tuple(cpu for _, cpu in pairs))
        for title, pairs in each.items()
    }
    stages = list(dict.fromkeys(stage for split in shares.values() for stage in split))
    split = [
        (title, *(f"{100 * found.get(stage, 0.0):.0f} %" for stage in stages))
        for title, found in shares.items()
    ]
    return SpeedTable(
        preset,
        conditions(config),
        tuple(measured.values()),
        ratios({way: measured[title] for title, way in ways.items()}, measured),
        (Section(("time", *stages), split),),
        left_out,
        {"shares": shares, "left_out": left_out},
    )


def ratios(ours: Mapping[Way, Speeds], measured: Mapping[str, Speeds]) -> dict[str, Ratio]:
    """Return our fastest of each precision over each peer, and overlap on over off."""
    found: dict[str, Ratio] = {}

    def compare(title: str, one: Speeds, other: Speeds) -> None:
        found[f"{title}, steps/s"] = ratio(one.per_second, other.per_second)
        found[f"{title}, steps/CPU-s"] = ratio(one.per_cpu_second, other.per_cpu_second)

    peers = [one for one in measured.values() if one not in ours.values()]
    for precision in dict.fromkeys(way.precision for way in ours):
        alike = [speeds for way, speeds in ours.items() if way.precision == precision]
        best = max(alike, key=lambda speeds: speeds.median)
        for peer in peers:
            compare(f"{best.name} / {peer.name}", best, peer)
    for way, speeds in ours.items():
        if way.overlap:
            compare(f"{speeds.name} / off", speeds, ours[replace(way, overlap=False)])
    return found


def measured_config(config: RunConfig, total_timesteps: int) -> RunConfig:
    """Return the configuration with as many steps as are measured, and nothing but training.

    A way that sees pixels is measured by pictures alone, which is what all peers can read.
    """
    rollout = config.num_envs * config.collect.num_steps
    seen = "tiles" if config.options["observation"] == "tiles" else "pixels"
    if seen == "pixels":
        options = {**config.options, "held_buttons": False}
        config = replace(config, options=options, policy=replace(config.policy, joint=()))
    return only_training(config, total_timesteps or rollout * (1 + ITERATIONS[seen]))


def conditions(config: RunConfig) -> str:
    """Return in one line what all systems share."""
    learn = config.learn
    return (
        f"{config.num_envs} games, {config.collect.num_steps} steps, {learn.n_epochs} epochs, "
        f"minibatch {learn.minibatch_size}, {config.total_timesteps:,} steps each, of which "
        "the first rollout does not count; the same layers on all sides"
    )


def our_ways(config: RunConfig) -> tuple[Way, ...]:
    """Return how we are measured: as exactly as the peers, and as the preset has it."""
    seen = dict.fromkeys((EQUAL_PRECISION, config.policy.image_precision))
    return tuple(Way(*way) for way in itertools.product(seen, THREADS, (False, True)))


def measure_ours(config: RunConfig) -> tuple[tuple[float, float], dict[str, float]]:
    """Return our speed in a complete run, logs and checkpoints included, and the time shares."""
    watch = CpuStopwatch()
    rows = measure_run(config, watch)
    return watch.rates, time_shares(rows[1:])


def speed_of(found: dict[str, Any]) -> tuple[float, float]:
    """Return what a peer measured of itself."""
    return float(found["steps_per_second"]), float(found["steps_per_cpu_second"])


def peer_rows(
    peers: Sequence[str], config: RunConfig, pythons: PeerPythons
) -> tuple[tuple[PeerRow, ...], tuple[str, ...]]:
    """Return the ways to run each peer that can be run here, and what is left out and why."""
    if not peers:
        return (), ()
    # For its error before anything is measured, which takes minutes.
    from benchmarks.peers.sb3_batched import lean_trunk

    lean_trunk(config)
    found: list[PeerRow] = []
    left_out: list[str] = []
    for peer, python, remedy in (
        ("sb3", Path(sys.executable), "pip install 'longhaul[peers]'"),
        ("sample-factory", pythons.sample_factory, "make peers-sample-factory"),
        ("sb3-today", pythons.today, "make peers-mario"),
    ):
        if peer not in peers:
            continue
        if fault := missing(python, NEEDED[peer]):
            left_out.append(f"{peer} left out: {fault}; `{remedy}` helps")
        else:
            found += ROWS[peer](python)
    return tuple(found), tuple(left_out)


def _sb3_rows(python: Path) -> list[PeerRow]:
    def row(title: str, *, threads: int, lent: bool) -> PeerRow:
        measure = partial(measure_sb3, python=python, threads=threads, lent=lent)
        return PeerRow("sb3", f"sb3, our consoles, {title}", measure)

    return [
        row("1 thread", threads=1, lent=False),
        row("2 threads", threads=2, lent=False),
        row("2 threads, our network module", threads=2, lent=True),
    ]


def _sample_factory_rows(python: Path) -> list[PeerRow]:
    def row(title: str, *, mode: str, lent: bool) -> PeerRow:
        measure = partial(measure_sample_factory, python=python, mode=mode, lent=lent)
        name = f"sample-factory, our consoles, {title}"
        return PeerRow("sample-factory", name, measure)

    return [
        row("processes", mode="processes", lent=False),
        row("serial, 2 threads", mode="serial", lent=False),
        row("processes, our network module", mode="processes", lent=True),
    ]


def _today_rows(python: Path) -> list[PeerRow]:
    title = "sb3 today: SubprocVecEnv over gym-super-mario-bros"
    return [PeerRow("sb3-today", title, partial(measure_today, python=python))]


ROWS: dict[str, Callable[[Path], list[PeerRow]]] = {
    "sb3": _sb3_rows,
    "sample-factory": _sample_factory_rows,
    "sb3-today": _today_rows,
}


def measure_sb3(config: RunConfig, *, python: Path, threads: int, lent: bool) -> dict[str, Any]:
    """Return SB3's speed with our consoles, in a separate process."""
    asked = {"config": to_values(config), "threads": threads, "lent": lent}
    command = [str(python), "-W", "ignore", "-m", "benchmarks.peers.sb3_batched"]
    return run_peer_script("sb3", [*command, json.dumps(asked)], limit_seconds=PEER_SECONDS)


def measure_sample_factory(
    config: RunConfig, *, python: Path, mode: str, lent: bool
) -> dict[str, Any]:
    """Return Sample Factory's speed with our consoles."""
    learn = config.learn
    rollout = config.num_envs * config.collect.num_steps
    asked = {
        "argument": Reference.parse(config.task).argument,
        "options": with_our_copy(config),
        "seed": config.seed,
        "num_envs": config.num_envs,
        "steps": config.collect.num_steps,
        "minibatch_size": learn.minibatch_size,
        "n_epochs": learn.n_epochs,
        "learning_rate": learn.learning_rate,
        "gamma": learn.gamma,
        "max_grad_norm": learn.max_grad_norm,
        "outputs": config.policy.image_features,
        "iterations": -(-config.total_timesteps // rollout),
        "mode": mode,
        "lent": lent,
        "threads": max(THREADS) if mode == "serial" else 1,
    }
    command = [*isolated(python, peer_sample_factory.__file__), json.dumps(asked)]
    return run_peer_script("sample-factory", command, limit_seconds=PEER_SECONDS)


def with_our_copy(config: RunConfig) -> dict[str, Any]:
    """Return the game's options with our copy of it, which another interpreter may not find."""
    if Reference.parse(config.task).argument or config.options["rom"] == STAND_IN:
        return config.options
    return {**config.options, "rom": str(Path(find_rom(config.options["rom"]).source).resolve())}


def measure_today(config: RunConfig, *, python: Path) -> dict[str, Any]:
    """Return SB3's speed with the emulator everybody has."""
    asked = {
        **TODAY,
        "minibatch_size": config.learn.minibatch_size,
        "n_epochs": config.learn.n_epochs,
        "outputs": config.policy.image_features,
    }
    command = [*isolated(python, peer_sb3_today.__file__), json.dumps(asked)]
    return run_peer_script("sb3-today", command, limit_seconds=PEER_SECONDS)


def main(words: Sequence[str]) -> None:
    """Measure and print."""
    parser = command.parser("mario_training", __doc__, task="mario")
    command.add_training(parser)
    parser.add_argument("--peer", choices=("none", *PEERS, "all"), default="none")
    usual = PeerPythons()
    parser.add_argument(
        "--peer-python", type=Path, default=usual.today, help="see make peers-mario"
    )
    parser.add_argument(
        "--sample-factory-python",
        type=Path,
        default=usual.sample_factory,
        help="see make peers-sample-factory",
    )
    asked = parser.parse_args(words)
    named = ConfigSources(asked.task, asked.preset, overrides=asked.overrides)
    peers = {"none": (), "all": PEERS}.get(asked.peer, (asked.peer,))
    pythons = PeerPythons(asked.peer_python, asked.sample_factory_python)
    found = bench_game_training(named, command.request(asked), peers, pythons)
    if asked.json:
        values = {preset: table.as_values() for preset, table in found.items()}
        sys.stdout.write(json.dumps({"task": asked.task, "presets": values}) + "\n")
        return
    for table in found.values():
        command.show(table, as_json=False)
        sys.stdout.write("\n")


if __name__ == "__main__":
    command.run(main)
