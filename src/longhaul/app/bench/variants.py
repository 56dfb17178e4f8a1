"""Measuring a task's environments in the sizes and kinds it names."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from longhaul.app.assemble import build_task
from longhaul.app.configure import from_values
from longhaul.app.registry import find_kind
from longhaul.app.text import columns
from longhaul.core.config import merge
from longhaul.core.env import VectorEnv
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.envs.build import make_vector_env
from longhaul.envs.checks import random_actions

DRAWN = 64  # actions are drawn before the clock starts, and used again
BATCH = 8  # steps between two looks at the clock


@dataclass(frozen=True, slots=True)
class VariantSpeed:
    """One kind of environment on one thread."""

    name: str
    envs: int
    rows: int  # of one env
    per_second: tuple[float, ...]
    per_cpu_second: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class VariantBenchmark:
    """All kinds a task names."""

    task: str
    speeds: tuple[VariantSpeed, ...]

    def as_text(self) -> str:
        """Return a table of speeds."""
        rows = [
            (
                speed.name,
                f"{speed.envs} x {speed.rows}",
                f"{statistics.median(speed.per_second):,.0f}",
                f"{statistics.median(speed.per_cpu_second):,.0f}",
                f"{1e9 / statistics.median(speed.per_cpu_second):,.0f}",
                " ".join(f"{value:,.0f}" for value in speed.per_cpu_second),
            )
            for speed in self.speeds
        ]
        header = (self.task, "envs x rows", "steps/s", "steps/CPU-s", "ns each", "each repeat")
        told = (
            "one thread; steps of rows that act, random actions drawn before, resets, checks and "
            "bookkeeping of the vector env included"
        )
        return f"{told}\n\n{columns(rows, header=header)}"

    def as_json(self) -> str:
        """Return the measurements for programs."""
        return json.dumps(
            {
                "task": self.task,
                "variants": {
                    speed.name: {
                        "envs": speed.envs,
                        "rows": speed.rows,
                        "steps_per_second": speed.per_second,
                        "steps_per_cpu_second": speed.per_cpu_second,
                    }
                    for speed in self.speeds
                },
            }
        )


def has_variants(task: str) -> bool:
    """Whether a task names sizes and kinds worth measuring."""
    return bool(find_kind(task).variants)


def bench_variants(task: str, *, seconds: float, repeats: int) -> VariantBenchmark:
    """Measure every kind of environment a task names, in turn."""
    if not seconds > 0 or repeats < 1:
        raise ConfigError(
            f"--seconds must be more than 0 and --repeats at least 1, not {seconds} and {repeats}"
        )
    variants = find_kind(task).variants
    found: dict[str, list[tuple[float, float]]] = {variant.name: [] for variant in variants}
    rows: dict[str, int] = {}
    for _ in range(repeats):
        for variant in variants:
            values: Mapping[str, object] = {"task": task, "options": variant.options}
            vector = make_vector_env(
                build_task(from_values(merge({}, values))).envs,
                count=variant.num_envs,
                seeds=DerivedSeeds(Seeds(1), "bench"),
                runtime="serial",
            )
            rows[variant.name] = vector.spec.rows
            try:
                found[variant.name].append(_measure(vector, seconds))
            finally:
                vector.close()
    return VariantBenchmark(
        task,
        tuple(
            VariantSpeed(
                variant.name,
                variant.num_envs,
                rows[variant.name],
                tuple(wall for wall, _ in found[variant.name]),
                tuple(cpu for _, cpu in found[variant.name]),
            )
            for variant in variants
        ),
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
