"""Training a second on a gym: task, ours beside other PPOs with the same network."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.beside import SAMPLE_FACTORY_PYTHON, measure_script
from benchmarks.peers import cleanrl
from benchmarks.peers.sb3 import measure_sb3
from benchmarks.processes import missing

from benchmarks import command
from longhaul.app.bench.training import bench_training
from longhaul.app.build.config import RunConfig
from longhaul.app.build.sources import Reference, resolve

CLEANRL = ("CartPole-v1", "Acrobot-v1")
"""The environments its script can play, by the names that they have in its version of Gym."""


def cleanrl_fault(config: RunConfig) -> str:
    """Return why CleanRL's script cannot be measured beside ours; empty if it can."""
    if Reference.parse(config.task).argument not in CLEANRL or config.policy.hidden != (64, 64):
        return "its script has one network, for discrete actions"
    fault = missing(SAMPLE_FACTORY_PYTHON, ("cleanrl", "gym", "pygame"))
    return f"{fault}; `make peers-atari` helps" if fault else ""


def measure_cleanrl(config: RunConfig) -> float:
    """Return the speed of CleanRL's script for small observations, in its own interpreter."""
    asked = {"threads": config.threads, "script": "ppo", "suffix": ""}
    found = measure_script(config, python=SAMPLE_FACTORY_PYTHON, script=cleanrl, asked=asked)
    return float(found["steps_per_second"])


def main(words: Sequence[str]) -> None:
    """Measure and print."""
    parser = command.parser("training", __doc__, task="gym:CartPole-v1")
    command.add_training(parser)
    asked = parser.parse_args(words)
    config = resolve(command.sources(asked))
    peers = {"sb3": measure_sb3}
    if fault := cleanrl_fault(config):
        command.notify(f"cleanrl left out: {fault}")
    else:
        peers["cleanrl"] = measure_cleanrl
    found = bench_training(config, command.request(asked), peers)
    command.show(found, as_json=asked.json)


if __name__ == "__main__":
    command.run(main)
