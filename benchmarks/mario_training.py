"""Training on Mario a second: ours, and other trainers with our consoles and without."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.beside import (
    PEER_SECONDS,
    SAMPLE_FACTORY_PYTHON,
    THREADS,
    Peer,
    PeerRow,
    available,
    conditions_for,
    measure_in_turn,
    our_ways,
)
from benchmarks.peers import sample_factory as peer_sample_factory
from benchmarks.peers import sb3_today as peer_sb3_today
from benchmarks.processes import isolated, run_peer_script

from benchmarks import command
from longhaul.app.bench.table import SpeedTable
from longhaul.app.bench.training import BenchRequest, only_training
from longhaul.app.build.config import RunConfig
from longhaul.app.build.sources import ConfigSources, Reference, resolve, to_values
from longhaul.tasks.mario.rom import STAND_IN, find_rom

PEERS = ("sb3", "sample-factory", "sb3-today")
BOTH_PRESETS = ("fast", "pixels")
ITERATIONS = {"tiles": 12, "pixels": 4}
"""Measured by default, after the first, by what is seen: about as long for both."""
TODAY = {"num_envs": 8, "steps": 64, "iterations": 3, "threads": 2}
"""Without our consoles 4,096 steps take half a minute; what one costs does not depend on it."""


@dataclass(frozen=True, slots=True)
class PeerPythons:
    """The interpreters that have the peers; see the Makefile."""

    today: Path = Path(".venv-peers/bin/python")
    sample_factory: Path = SAMPLE_FACTORY_PYTHON


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
        ways = our_ways(config.policy.image_precision)
        found[preset] = measure_in_turn(preset, config, ways, rows, request.repeats, left_out)
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


def peer_rows(
    peers: Sequence[str], config: RunConfig, pythons: PeerPythons
) -> tuple[tuple[PeerRow, ...], tuple[str, ...]]:
    """Return the ways to run each peer that can be run here, and what is left out and why."""
    if not peers:
        return (), ()
    # For its error before anything is measured, which takes minutes.
    from benchmarks.peers.sb3_batched import lean_trunk

    lean_trunk(config)
    known = (
        Peer(
            "sb3",
            Path(sys.executable),
            ("stable_baselines3", "torch"),
            "pip install 'longhaul-rl[peers]'",
            _sb3_rows,
        ),
        Peer(
            "sample-factory",
            pythons.sample_factory,
            ("sample_factory", "torch"),
            "make peers-sample-factory",
            _sample_factory_rows,
        ),
        Peer(
            "sb3-today",
            pythons.today,
            ("stable_baselines3", "torch", "gym_super_mario_bros"),
            "make peers-mario",
            _today_rows,
        ),
    )
    return available(peer for peer in known if peer.name in peers)


def _sb3_rows(python: Path) -> list[PeerRow]:
    def row(title: str, *, threads: int, lent: bool) -> PeerRow:
        measure = partial(measure_sb3, python=python, threads=threads, lent=lent)
        return PeerRow(f"sb3, our consoles, {title}", measure)

    return [
        row("1 thread", threads=1, lent=False),
        row("2 threads", threads=2, lent=False),
        row("2 threads, our network module", threads=2, lent=True),
    ]


def _sample_factory_rows(python: Path) -> list[PeerRow]:
    def row(title: str, *, mode: str, lent: bool) -> PeerRow:
        measure = partial(measure_sample_factory, python=python, mode=mode, lent=lent)
        name = f"sample-factory, our consoles, {title}"
        return PeerRow(name, measure)

    return [
        row("processes", mode="processes", lent=False),
        row("serial, 2 threads", mode="serial", lent=False),
        row("processes, our network module", mode="processes", lent=True),
    ]


def _today_rows(python: Path) -> list[PeerRow]:
    title = "sb3 today: SubprocVecEnv over gym-super-mario-bros"
    return [PeerRow(title, partial(measure_today, python=python))]


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
    asked = {
        **conditions_for(config),
        "options": with_our_copy(config),
        "gamma": learn.gamma,
        "max_grad_norm": learn.max_grad_norm,
        "outputs": config.policy.image_features,
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
