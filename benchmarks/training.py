"""Training a second on a gym: task, ours beside Stable-Baselines3's PPO with the same network."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.peers.sb3 import measure_sb3

from benchmarks import command
from longhaul.app.bench.training import bench_training
from longhaul.app.build.sources import resolve


def main(words: Sequence[str]) -> None:
    """Measure and print."""
    parser = command.parser("training", __doc__, task="gym:CartPole-v1")
    command.add_training(parser)
    asked = parser.parse_args(words)
    config = resolve(command.sources(asked))
    found = bench_training(config, command.request(asked), {"sb3": measure_sb3})
    command.show(found, as_json=asked.json)


if __name__ == "__main__":
    command.run(main)
