"""Measuring training beside the way a task was trained before, in one run."""

from __future__ import annotations

import json
import statistics
import time
import warnings
from dataclasses import dataclass
from typing import Any

import torch

from longhaul.app.bench.training import BenchRequest, CpuStopwatch, measure_run, only_training
from longhaul.app.config import RunConfig
from longhaul.app.configure import ConfigSources, resolve
from longhaul.app.peers.sb3 import callback, load_sb3, ppo_settings
from longhaul.app.registry import find_kind
from longhaul.app.text import columns
from longhaul.core.config import convert
from longhaul.core.errors import ConfigError
from longhaul.tasks.kind import Predecessor

STEPS = 16
"""Steps of each of its environments per iteration. Its own 128 would take minutes an iteration, and
what a step costs does not depend on it."""
ITERATIONS = 3


@dataclass(frozen=True, slots=True)
class Pace:
    """Speeds of one system, once per repeat."""

    name: str
    told: str
    per_second: tuple[float, ...]  # bodies moved
    per_cpu_second: tuple[float, ...]
    learned_per_second: tuple[float, ...]  # transitions the policy learns from


@dataclass(frozen=True, slots=True)
class Beside:
    """Us and the predecessor, measured in turn."""

    task: str
    ours: Pace
    theirs: Pace

    @property
    def ratios(self) -> dict[str, tuple[float, ...]]:
        """Ours over the predecessor's, repeat by repeat."""
        pairs = {
            "steps/s": (self.ours.per_second, self.theirs.per_second),
            "steps/CPU-s": (self.ours.per_cpu_second, self.theirs.per_cpu_second),
            "learned/s": (self.ours.learned_per_second, self.theirs.learned_per_second),
        }
        return {
            name: tuple(a / b for a, b in zip(first, second, strict=True))
            for name, (first, second) in pairs.items()
        }

    def as_text(self) -> str:
        """Return tables of speeds and ratios."""
        rows = [
            (
                pace.name,
                f"{statistics.median(pace.per_second):,.0f}",
                f"{statistics.median(pace.per_cpu_second):,.0f}",
                f"{statistics.median(pace.learned_per_second):,.0f}",
            )
            for pace in (self.ours, self.theirs)
        ]
        speeds = columns(rows, header=(self.task, "steps/s", "steps/CPU-s", "learned/s"))
        ratios = columns(
            [
                (name, f"{statistics.median(found):.1f}", " ".join(f"{r:.1f}" for r in found))
                for name, found in self.ratios.items()
            ],
            header=("ratio", "median", "each repeat"),
        )
        told = "\n".join(f"{pace.name}: {pace.told}" for pace in (self.ours, self.theirs))
        return "\n\n".join([told, speeds, ratios])

    def as_json(self) -> str:
        """Return the measurements for programs."""
        return json.dumps(
            {
                "task": self.task,
                **{
                    pace.name: {
                        "steps_per_second": pace.per_second,
                        "steps_per_cpu_second": pace.per_cpu_second,
                        "learned_per_second": pace.learned_per_second,
                    }
                    for pace in (self.ours, self.theirs)
                },
                "ratios": self.ratios,
            }
        )


def has_predecessor(task: str) -> bool:
    """Whether a task was trained in another way before."""
    return find_kind(task).predecessor is not None


def bench_predecessor(config: RunConfig, request: BenchRequest) -> Beside:
    """Train both in turn and count the bodies they move, learning included."""
    kind = find_kind(config.task)
    old = kind.predecessor
    if old is None:
        raise ConfigError(f"task {config.task!r} has no predecessor to measure beside")
    if request.repeats < 1:
        raise ConfigError("--repeats must be at least 1")
    theirs = resolve(ConfigSources(task=config.task, preset=old.preset))
    config = only_training(config, request.total_timesteps)
    found: list[tuple[tuple[float, float], tuple[float, float]]] = []
    options = convert(theirs.options, kind.options, where="options")
    for _ in range(request.repeats):
        watch = CpuStopwatch()
        measure_run(config, watch)
        found.append((watch.rates, _measure_old(theirs, old, options)))
    bodies = old.bodies(options)
    return Beside(
        config.task,
        Pace(
            "ours",
            f"{config.num_envs} envs in arrays, every body learns for itself, {config.threads} "
            "thread(s) to learn; logs and checkpoints included",
            tuple(ours[0] for ours, _ in found),
            tuple(ours[1] for ours, _ in found),
            tuple(ours[0] for ours, _ in found),
        ),
        Pace(
            "predecessor",
            f"Stable-Baselines3's PPO over a DummyVecEnv of {theirs.num_envs} environments in "
            f"Python, {bodies} bodies each of which one is looked at, network "
            f"{list(theirs.policy.hidden)}, {theirs.learn.epochs} epochs",
            tuple(old_rates[0] for _, old_rates in found),
            tuple(old_rates[1] for _, old_rates in found),
            tuple(old_rates[0] / bodies for _, old_rates in found),
        ),
    )


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
