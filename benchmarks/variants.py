"""Steps a second of a task's environments in the sizes and kinds it names, on one thread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import command
from longhaul.app.bench.table import Section, Speeds, SpeedTable
from longhaul.app.bench.training import BATCH, DRAWN
from longhaul.app.build.components import build_task
from longhaul.app.build.sources import find_kind, from_values
from longhaul.core.config import merge
from longhaul.core.env import VectorEnv
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.envs.build import make_vector_env
from longhaul.envs.checks import random_actions


@dataclass(frozen=True, slots=True)
class EnvVariant:
    """A size or kind of environment to measure."""

    name: str
    options: dict[str, Any]
    num_envs: int


VARIANTS = {
    "fish": (
        EnvVariant("base inputs, 25 fish", {"inputs": "world", "fish": 25}, 128),
        EnvVariant("base inputs, 250 fish", {"inputs": "world", "fish": 250}, 13),
        EnvVariant("own frame, 25 fish", {"fish": 25}, 128),
        EnvVariant("own frame, 250 fish", {"fish": 250}, 13),
        EnvVariant("neighbors, 25 fish", {"fish": 25, "neighbors": {"inputs": True}}, 128),
        EnvVariant("neighbors, 250 fish", {"fish": 250, "neighbors": {"inputs": True}}, 13),
    ),
    "nethack": (
        EnvVariant("state and atoms", {}, 32),
        EnvVariant("with the map", {"map": {"view": True}}, 32),
    ),
}


def bench_variants(task: str, *, seconds: float, repeats: int) -> SpeedTable:
    """Measure every kind of environment a task names, in turn."""
    if not seconds > 0 or repeats < 1:
        raise ConfigError(
            f"--seconds must be more than 0 and --repeats at least 1, not {seconds} and {repeats}"
        )
    variants = VARIANTS.get(find_kind(task).name, ())
    if not variants:
        raise ConfigError(f"no variants of task {task!r} are listed; tasks: {', '.join(VARIANTS)}")
    found: dict[str, list[tuple[float, float]]] = {variant.name: [] for variant in variants}
    sizes: dict[str, tuple[int, int]] = {}
    for _ in range(repeats):
        for variant in variants:
            values: Mapping[str, object] = {"task": task, "options": variant.options}
            vector = make_vector_env(
                build_task(from_values(merge({}, values))).envs,
                count=variant.num_envs,
                seeds=DerivedSeeds(Seeds(1), "bench"),
                runtime="serial",
            )
            sizes[variant.name] = variant.num_envs, vector.spec.rows
            try:
                found[variant.name].append(_measure(vector, seconds))
            finally:
                vector.close()
    speeds = tuple(
        Speeds(name, tuple(wall for wall, _ in each), tuple(cpu for _, cpu in each))
        for name, each in found.items()
    )
    rows = [
        (
            speed.name,
            " x ".join(map(str, sizes[speed.name])),
            f"{1e9 / statistics.median(speed.per_cpu_second):,.0f}",
        )
        for speed in speeds
    ]
    return SpeedTable(
        task,
        "one thread; steps of rows that act, random actions drawn before, resets, checks and "
        "bookkeeping of the vector env included",
        speeds,
        sections=(Section(("", "envs x rows", "ns of processor time a step"), rows),),
        values={"envs_and_rows": sizes},
    )


def _measure(vector: VectorEnv, seconds: float) -> tuple[float, float]:
    """Return the acting rows' steps per second and per CPU-second, after a first batch."""
    one = random_actions(vector.spec, DRAWN * vector.count, 1)
    drawn = one.reshape(DRAWN, vector.rows, *one.shape[2:])
    vector.reset()
    for number in range(BATCH):
        vector.step(drawn[number])
    began, cpu, steps = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - began < seconds or not steps:
        for number in range(DRAWN):
            steps += int(np.count_nonzero(vector.slots.active))
            vector.step(drawn[number])
    return steps / (time.perf_counter() - began), steps / (time.process_time() - cpu)


def main(words: Sequence[str]) -> None:
    """Measure and print."""
    parser = command.parser("variants", __doc__, task="fish")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    asked = parser.parse_args(words)
    found = bench_variants(asked.task, seconds=asked.seconds, repeats=asked.repeats)
    command.show(found, as_json=asked.json)


if __name__ == "__main__":
    command.run(main)
