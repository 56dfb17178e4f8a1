"""Complete trainings, ours in several ways and those of other trainers, measured in turn."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.processes import CpuStopwatch, isolated, missing, run_peer_script

from benchmarks import command
from longhaul.app.bench.table import Ratio, Section, Speeds, SpeedTable, ratio
from longhaul.app.bench.training import measure_run, time_shares
from longhaul.app.build.config import RunConfig
from longhaul.app.build.sources import Reference
from longhaul.learn.config import PPOConfig
from longhaul.nets.config import ImagePrecision

EQUAL_PRECISION: ImagePrecision = "float32"
"""What every peer computes with."""
THREADS = (1, 2)
PEER_SECONDS = 1800.0
SAMPLE_FACTORY_PYTHON = Path(".venv-sample-factory/bin/python")


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run ours."""

    precision: ImagePrecision
    threads: int
    overlap: bool

    @property
    def title(self) -> str:
        """What it is called."""
        precision = "" if self.precision == EQUAL_PRECISION else f", {self.precision} precision"
        return f"longhaul{precision}, {threads_title(self.threads)}{', overlap' * self.overlap}"

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

    title: str
    measure: Callable[[RunConfig], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Peer:
    """Another trainer, and what its interpreter must have."""

    name: str
    python: Path
    needs: tuple[str, ...]
    remedy: str
    rows: Callable[[Path], list[PeerRow]]


def threads_title(threads: int) -> str:
    """Return how many threads, in words."""
    return f"{threads} thread{'s' * (threads > 1)}"


def our_ways(*precisions: ImagePrecision) -> tuple[Way, ...]:
    """Return how ours is measured: as exactly as the peers, and with other precisions."""
    seen = dict.fromkeys((EQUAL_PRECISION, *precisions))
    return tuple(Way(*way) for way in itertools.product(seen, THREADS, (False, True)))


def available(peers: Iterable[Peer]) -> tuple[tuple[PeerRow, ...], tuple[str, ...]]:
    """Return the ways to run the peers that can be run here, and which are left out and why.

    What an interpreter lacks is asked before anything is measured, which takes minutes.
    """
    found: list[PeerRow] = []
    left_out: list[str] = []
    for peer in peers:
        if fault := missing(peer.python, peer.needs):
            left_out.append(f"{peer.name} left out: {fault}; `{peer.remedy}` helps")
        else:
            found += peer.rows(peer.python)
    return tuple(found), tuple(left_out)


def conditions_for(config: RunConfig) -> dict[str, Any]:
    """Return what all trainers share, for scripts that do not know our configuration."""
    learn = config.learn
    assert isinstance(learn, PPOConfig), "the peers' learners are PPO"
    rollout = config.num_envs * config.collect.num_steps
    return {
        "game": Reference.parse(config.task).argument,
        "seed": config.seed,
        "num_envs": config.num_envs,
        "steps": config.collect.num_steps,
        "minibatch_size": learn.minibatch_size,
        "n_epochs": learn.n_epochs,
        "learning_rate": learn.learning_rate,
        "clip_range": learn.clip_range,
        "iterations": -(-config.total_timesteps // rollout),
    }


def measure_script(
    config: RunConfig, *, python: Path, script: ModuleType, asked: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a peer's script measures in its own interpreter."""
    assert script.__file__ is not None
    given = json.dumps({**conditions_for(config), **asked})
    words = [*isolated(python, script.__file__), given]
    return run_peer_script(script.__name__, words, limit_seconds=PEER_SECONDS)


def measure_in_turn(
    title: str,
    config: RunConfig,
    ours: Iterable[Way],
    peers: Iterable[PeerRow],
    repeats: int,
    left_out: tuple[str, ...] = (),
) -> SpeedTable:
    """Measure all systems in turn, again and again; every measurement is printed as it is taken."""
    each: dict[str, list[tuple[float, float]]] = {}
    shares: dict[str, dict[str, float]] = {}
    ways = {way.title: way for way in ours}

    def keep(name: str, speed: tuple[float, float]) -> None:
        each.setdefault(name, []).append(speed)
        wall, by_cpu = speed
        command.notify(f"{title}: {name}: {wall:,.0f} steps/s, {by_cpu:,.0f} steps/CPU-s")

    for _ in range(repeats):
        for name, way in ways.items():
            speed, shares[name] = measure_ours(way.of(config))
            keep(name, speed)
        for row in peers:
            keep(row.title, speed_of(row.measure(config)))
    measured = {
        name: Speeds(name, tuple(wall for wall, _ in pairs), tuple(cpu for _, cpu in pairs))
        for name, pairs in each.items()
    }
    stages = list(dict.fromkeys(stage for split in shares.values() for stage in split))
    split = [
        (name, *(f"{100 * found.get(stage, 0.0):.0f} %" for stage in stages))
        for name, found in shares.items()
    ]
    return SpeedTable(
        title,
        conditions(config),
        tuple(measured.values()),
        ratios({way: measured[name] for name, way in ways.items()}, measured),
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


def conditions(config: RunConfig) -> str:
    """Return in one line what all systems share."""
    learn = config.learn
    return (
        f"{config.num_envs} games, {config.collect.num_steps} steps, {learn.n_epochs} epochs, "
        f"minibatch {learn.minibatch_size}, {config.total_timesteps:,} steps each, of which "
        "the first rollout does not count; the same layers on all sides"
    )


def measure_ours(config: RunConfig) -> tuple[tuple[float, float], dict[str, float]]:
    """Return our speed in a complete run, logs and checkpoints included, and the time shares."""
    watch = CpuStopwatch()
    rows = measure_run(config, watch)
    return watch.rates, time_shares(rows[1:])


def speed_of(found: dict[str, Any]) -> tuple[float, float]:
    """Return what a peer measured of itself."""
    return float(found["steps_per_second"]), float(found["steps_per_cpu_second"])
