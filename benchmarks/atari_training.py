"""Training on an Atari game a second: ours, and other trainers with their own environments."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
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
    measure_in_turn,
    measure_script,
    our_ways,
    threads_title,
)
from benchmarks.peers import cleanrl, sample_factory_atari
from benchmarks.processes import run_peer_script

from benchmarks import command
from longhaul.app.bench.training import only_training
from longhaul.app.build.config import RunConfig
from longhaul.app.build.sources import resolve, to_values

ITERATIONS = 10
"""Measured by default, after the first."""


def measure_sb3(config: RunConfig, *, python: Path, threads: int) -> dict[str, Any]:
    """Return SB3's speed in a separate process, with its games in processes too."""
    given = json.dumps({**to_values(config), "threads": threads})
    words = [str(python), "-W", "ignore", "-m", "benchmarks.peers.sb3", given]
    return run_peer_script("sb3", words, limit_seconds=PEER_SECONDS)


def _sb3_rows(python: Path) -> list[PeerRow]:
    return [
        PeerRow(
            f"sb3, SubprocVecEnv, {threads_title(threads)}",
            partial(measure_sb3, python=python, threads=threads),
        )
        for threads in THREADS
    ]


def _cleanrl_rows(python: Path) -> list[PeerRow]:
    def row(threads: int) -> PeerRow:
        asked = {"threads": threads, "script": "ppo_atari_envpool", "suffix": "-v5"}
        measure = partial(measure_script, python=python, script=cleanrl, asked=asked)
        return PeerRow(f"cleanrl, EnvPool, {threads_title(threads)}", measure)

    return [row(threads) for threads in THREADS]


def _sample_factory_rows(python: Path) -> list[PeerRow]:
    def row(title: str, **asked: Any) -> PeerRow:
        script = sample_factory_atari
        measure = partial(measure_script, python=python, script=script, asked=asked)
        return PeerRow(f"sample-factory, {title}", measure)

    return [
        row("8 workers", mode="processes", workers=8, threads=1),
        row("2 workers", mode="processes", workers=2, threads=1),
        row("serial, 2 threads", mode="serial", threads=2),
    ]


def peers() -> tuple[Peer, ...]:
    """Return the trainers that can be measured beside ours."""
    return (
        Peer(
            "sb3",
            Path(sys.executable),
            ("stable_baselines3", "cv2", "torch"),
            "pip install 'longhaul-rl[peers]'",
            _sb3_rows,
        ),
        Peer(
            "cleanrl",
            SAMPLE_FACTORY_PYTHON,
            ("cleanrl", "envpool", "torch"),
            "make peers-atari",
            _cleanrl_rows,
        ),
        Peer(
            "sample-factory",
            SAMPLE_FACTORY_PYTHON,
            ("sample_factory", "ale_py", "torch"),
            "make peers-atari",
            _sample_factory_rows,
        ),
    )


def measured_config(config: RunConfig, total_timesteps: int) -> RunConfig:
    """Return the configuration with as many steps as are measured, and nothing but training."""
    rollout = config.num_envs * config.collect.num_steps
    return only_training(config, total_timesteps or rollout * (1 + ITERATIONS))


def main(words: Sequence[str]) -> None:
    """Measure and print."""
    parser = command.parser("atari_training", __doc__, task="atari:Pong")
    command.add_training(parser)
    asked = parser.parse_args(words)
    config = measured_config(resolve(command.sources(asked)), asked.total_timesteps)
    rows, left_out = available(peers())
    for line in left_out:
        command.notify(line)
    repeats = command.request(asked).repeats
    table = measure_in_turn(asked.task, config, our_ways("bfloat16"), rows, repeats, left_out)
    command.show(table, as_json=asked.json)


if __name__ == "__main__":
    command.run(main)
