"""Measuring training on the game: ours, and other trainers with our consoles and without."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from longhaul.app.bench.mario import Speed
from longhaul.app.bench.mario_table import EQUAL_PRECISION, PresetSpeeds, Trained, Training
from longhaul.app.bench.training import (
    BenchRequest,
    CpuStopwatch,
    measure_run,
    only_training,
    time_shares,
)
from longhaul.app.config import RunConfig
from longhaul.app.configure import ConfigSources, resolve, to_values
from longhaul.app.peers import sample_factory as peer_sample_factory
from longhaul.app.peers import sb3_today as peer_sb3_today
from longhaul.app.peers.script import isolated, missing, run_peer_script
from longhaul.app.registry import Reference
from longhaul.core.errors import ConfigError
from longhaul.nets.config import ImagePrecision
from longhaul.tasks.mario.rom import STAND_IN, find_rom

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
    has_our_consoles: bool
    measure: Callable[[RunConfig], dict[str, Any]]


def trains_game(task: str) -> bool:
    """Whether this is how a task is measured."""
    return Reference.parse(task).kind == "mario"


def bench_game_training(
    sources: ConfigSources,
    request: BenchRequest,
    pythons: PeerPythons,
    tell: Callable[[str], None] = lambda line: None,
) -> Training:
    """Measure one preset beside the peers; without one, `fast` alone and `pixels` beside them.

    Every measurement is told as it is taken: all of them take many minutes.
    """
    if request.repeats < 1:
        raise ConfigError("--repeats must be at least 1")
    choices = ("none", *PEERS, "all")
    if request.peer not in choices:
        raise ConfigError(f"--peer {request.peer!r} is not known; use one of {', '.join(choices)}")
    chosen = {"none": (), "all": PEERS}.get(request.peer, (request.peer,))
    presets = (sources.preset,) if sources.preset else BOTH_PRESETS
    found = []
    for preset in presets:
        config = measured_config(resolve(replace(sources, preset=preset)), request.total_timesteps)
        is_alone = not sources.preset and preset != "pixels"
        rows, left_out = peer_rows(() if is_alone else chosen, config, pythons)
        for words in left_out:
            tell(words)
        speeds = bench_preset(preset, config, rows, request.repeats, tell)
        found.append(replace(speeds, left_out=left_out))
    return Training(sources.task, tuple(found))


def bench_preset(
    preset: str,
    config: RunConfig,
    rows: tuple[PeerRow, ...],
    repeats: int,
    tell: Callable[[str], None],
) -> PresetSpeeds:
    """Measure all systems in turn, again and again."""
    ours: dict[Way, list[Speed]] = {}
    shares: dict[Way, dict[str, float]] = {}
    theirs: list[list[Speed]] = [[] for _ in rows]

    def keep(speeds: list[Speed], title: str, speed: Speed) -> None:
        speeds.append(speed)
        tell(f"{preset}: {title}: {speed.wall:,.0f} steps/s, {speed.per_core:,.0f} steps/CPU-s")

    for _ in range(repeats):
        for way in our_ways(config):
            speed, shares[way] = measure_ours(way.of(config))
            keep(ours.setdefault(way, []), way.title, speed)
        for row, speeds in zip(rows, theirs, strict=True):
            keep(speeds, row.title, speed_of(row.measure(config)))
    return PresetSpeeds(
        preset,
        conditions(config),
        tuple(
            Trained(way.title, tuple(each), shares=shares[way], precision=way.precision)
            for way, each in ours.items()
        ),
        tuple(
            Trained(row.title, tuple(each), has_our_consoles=row.has_our_consoles)
            for row, each in zip(rows, theirs, strict=True)
        ),
    )


def measured_config(config: RunConfig, total_timesteps: int) -> RunConfig:
    """Return the configuration with as many steps as are measured, and nothing but training.

    Whoever sees pixels is measured by pictures alone, which is what all peers can read.
    """
    rollout = config.num_envs * config.collect.steps
    seen = "tiles" if config.options["observation"] == "tiles" else "pixels"
    if seen == "pixels":
        options = {**config.options, "held_buttons": False}
        config = replace(config, options=options, policy=replace(config.policy, joint=()))
    return only_training(config, total_timesteps or rollout * (1 + ITERATIONS[seen]))


def conditions(config: RunConfig) -> str:
    """Return in one line what all systems share."""
    learn = config.learn
    return (
        f"{config.num_envs} games, {config.collect.steps} steps, {learn.epochs} epochs, "
        f"minibatch {learn.minibatch}, {config.total_timesteps:,} steps each of which the first "
        "rollout does not count; the same layers on all sides"
    )


def our_ways(config: RunConfig) -> tuple[Way, ...]:
    """Return how we are measured: as exactly as the peers, and as the preset has it."""
    seen = dict.fromkeys((EQUAL_PRECISION, config.policy.image_precision))
    return tuple(Way(*way) for way in itertools.product(seen, THREADS, (False, True)))


def measure_ours(config: RunConfig) -> tuple[Speed, dict[str, float]]:
    """Return our speed in a complete run, logs and checkpoints included, and the time shares."""
    watch = CpuStopwatch()
    rows = measure_run(config, watch)
    return Speed(*watch.rates), time_shares(rows[1:])


def speed_of(found: dict[str, Any]) -> Speed:
    """Return what a peer measured of itself."""
    return Speed(float(found["steps_per_second"]), float(found["steps_per_cpu_second"]))


def peer_rows(
    peers: tuple[str, ...], config: RunConfig, pythons: PeerPythons
) -> tuple[tuple[PeerRow, ...], tuple[str, ...]]:
    """Return the ways to run each peer that can be run here, and what is left out and why."""
    if not peers:
        return (), ()
    # For its error before anything is measured, which takes minutes.
    from longhaul.app.peers.sb3_batched import lean_trunk

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
        return PeerRow("sb3", f"sb3, our consoles, {title}", True, measure)  # noqa: FBT003

    return [
        row("1 thread", threads=1, lent=False),
        row("2 threads", threads=2, lent=False),
        row("2 threads, our network module", threads=2, lent=True),
    ]


def _sample_factory_rows(python: Path) -> list[PeerRow]:
    def row(title: str, *, mode: str, lent: bool) -> PeerRow:
        measure = partial(measure_sample_factory, python=python, mode=mode, lent=lent)
        name = f"sample-factory, our consoles, {title}"
        return PeerRow("sample-factory", name, True, measure)  # noqa: FBT003

    return [
        row("processes", mode="processes", lent=False),
        row("serial, 2 threads", mode="serial", lent=False),
        row("processes, our network module", mode="processes", lent=True),
    ]


def _today_rows(python: Path) -> list[PeerRow]:
    title = "sb3 today: SubprocVecEnv over gym-super-mario-bros"
    return [PeerRow("sb3-today", title, False, partial(measure_today, python=python))]  # noqa: FBT003


ROWS: dict[str, Callable[[Path], list[PeerRow]]] = {
    "sb3": _sb3_rows,
    "sample-factory": _sample_factory_rows,
    "sb3-today": _today_rows,
}


def measure_sb3(config: RunConfig, *, python: Path, threads: int, lent: bool) -> dict[str, Any]:
    """Return SB3's speed with our consoles, in a process of its own."""
    asked = {"config": to_values(config), "threads": threads, "lent": lent}
    command = [str(python), "-W", "ignore", "-m", "longhaul.app.peers.sb3_batched"]
    return run_peer_script("sb3", [*command, json.dumps(asked)], limit_seconds=PEER_SECONDS)


def measure_sample_factory(
    config: RunConfig, *, python: Path, mode: str, lent: bool
) -> dict[str, Any]:
    """Return Sample Factory's speed with our consoles."""
    learn = config.learn
    rollout = config.num_envs * config.collect.steps
    asked = {
        "argument": Reference.parse(config.task).argument,
        "options": with_our_copy(config),
        "seed": config.seed,
        "num_envs": config.num_envs,
        "steps": config.collect.steps,
        "minibatch": learn.minibatch,
        "epochs": learn.epochs,
        "learning_rate": learn.learning_rate,
        "discount": learn.discount,
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
        "minibatch": config.learn.minibatch,
        "epochs": config.learn.epochs,
        "outputs": config.policy.image_features,
    }
    command = [*isolated(python, peer_sb3_today.__file__), json.dumps(asked)]
    return run_peer_script("sb3-today", command, limit_seconds=PEER_SECONDS)
