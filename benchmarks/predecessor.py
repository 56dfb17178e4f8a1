"""Training a second beside the way a task was trained before."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from benchmarks.fish_predecessor import PredecessorEnv
from benchmarks.peers.sb3 import callback, load_sb3, ppo_settings
from benchmarks.processes import CpuStopwatch

from benchmarks import command
from longhaul.app.bench.table import Speeds, SpeedTable, ratio
from longhaul.app.bench.training import BenchRequest, measure_run, only_training
from longhaul.app.build.config import RunConfig
from longhaul.app.build.sources import ConfigSources, find_kind, resolve
from longhaul.core.config import convert
from longhaul.core.errors import ConfigError

STEPS = 16
"""Steps of each of its environments per iteration. Its own 128 would take minutes an iteration, and
what a step costs does not depend on it."""
ITERATIONS = 3


@dataclass(frozen=True, slots=True)
class Predecessor:
    """How a task was trained before longhaul."""

    preset: str
    """The preset with its options, network and learner."""
    make: Callable[[Any], Any]
    """Return its Gymnasium environment for the options of the preset."""
    bodies: Callable[[Any], int]
    """Return how many acting bodies one of its steps moves, which are rows in ours."""


PREDECESSORS = {"fish": Predecessor("original", PredecessorEnv, lambda options: options.fish)}

OURS, OLD = "longhaul", "predecessor"


def bench_predecessor(config: RunConfig, request: BenchRequest) -> SpeedTable:
    """Train both in turn and count the bodies they move, learning included."""
    kind = find_kind(config.task)
    old = PREDECESSORS.get(kind.name)
    if old is None:
        raise ConfigError(f"task {config.task!r} has no predecessor to measure beside")
    theirs = resolve(ConfigSources(task=config.task, preset=old.preset))
    config = only_training(config, request.total_timesteps)
    options = convert(theirs.options, kind.options, where="options")
    ours, olds = [], []
    for _ in range(request.repeats):
        watch = CpuStopwatch()
        measure_run(config, watch)
        ours.append(watch.rates)
        olds.append(_measure_old(theirs, old, options))
    bodies = old.bodies(options)
    mine, yours = _speeds(OURS, ours), _speeds(OLD, olds)
    # Every body of ours learns; of the predecessor's environments one body each does.
    learned = tuple(speed / bodies for speed in yours.per_second)
    return SpeedTable(
        config.task,
        f"{OURS}: {config.num_envs} envs in arrays, every body learns for itself, {config.threads} "
        "thread(s) to learn; logs and checkpoints included\n"
        f"{OLD}: Stable-Baselines3's PPO over a DummyVecEnv of {theirs.num_envs} environments in "
        f"Python, {bodies} bodies each of which one is looked at, network "
        f"{list(theirs.policy.hidden)}, {theirs.learn.n_epochs} epochs",
        (mine, yours, Speeds(f"{OLD}, learned from", learned)),
        {
            "steps/s": ratio(mine.per_second, yours.per_second),
            "steps/CPU-s": ratio(mine.per_cpu_second, yours.per_cpu_second),
            "learned/s": ratio(mine.per_second, learned),
        },
    )


def _speeds(name: str, rates: Sequence[tuple[float, float]]) -> Speeds:
    return Speeds(name, tuple(wall for wall, _ in rates), tuple(cpu for _, cpu in rates))


def _measure_old(config: RunConfig, old: Predecessor, options: Any) -> tuple[float, float]:
    """Return the predecessor's bodies moved per second and per CPU-second, learning included."""
    torch.set_deterministic_debug_mode("default")
    stable = load_sb3()
    env = stable.DummyVecEnv([lambda: old.make(options)] * config.num_envs)
    model = stable.PPO(
        "MlpPolicy",
        env,
        n_steps=STEPS,
        policy_kwargs={"net_arch": list(config.policy.hidden), "activation_fn": torch.nn.Tanh},
        **ppo_settings(config),
    )
    marks: list[tuple[float, float, int]] = []

    def mark() -> None:
        marks.append((time.perf_counter(), time.process_time(), model.num_timesteps))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.learn(ITERATIONS * STEPS * config.num_envs, callback=callback(mark))
    mark()
    env.close()
    (began, cpu, before), (ended, cpu_end, after) = marks[1], marks[-1]
    moved = (after - before) * old.bodies(options)
    return moved / (ended - began), moved / (cpu_end - cpu)


def main(words: Sequence[str]) -> None:
    """Measure and print."""
    parser = command.parser("predecessor", __doc__, task="fish")
    command.add_training(parser)
    asked = parser.parse_args(words)
    found = bench_predecessor(resolve(command.sources(asked)), command.request(asked))
    command.show(found, as_json=asked.json)


if __name__ == "__main__":
    command.run(main)
