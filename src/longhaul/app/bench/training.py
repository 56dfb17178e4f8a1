"""Measuring training speed, beside a peer and in one run."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from longhaul.app.assemble import build_collector, build_policy, build_settings, build_task
from longhaul.app.config import RunConfig
from longhaul.app.registry import find_kind
from longhaul.app.session import Asked, carry_out
from longhaul.app.text import columns
from longhaul.app.train import begin_run
from longhaul.core.errors import ConfigError
from longhaul.core.progress import Progress
from longhaul.engine.stop import Until
from longhaul.engine.watch import STAGES
from longhaul.runs.reader import read_metrics

PEERS = ("none", "sb3")
LEAST_STEPS = 100_000
LEAST_ITERATIONS = 12


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """What to measure."""

    peer: str = "none"
    total_timesteps: int = 0
    """Steps of each measurement; 0: as many as are enough."""
    repeats: int = 3


@dataclass(frozen=True, slots=True)
class Measured:
    """The speed of one system, once per repeat."""

    name: str
    steps_per_second: tuple[float, ...]
    shares: dict[str, float] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.steps_per_second)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Speeds measured in turn on one machine."""

    task: str
    conditions: str
    ours: Measured
    rollouts: Measured
    """The same without learning: the environments and the policy's choices."""
    peer: Measured | None

    @property
    def ratios(self) -> tuple[float, ...]:
        """Ours over the peer's, repeat by repeat."""
        if self.peer is None:
            return ()
        pairs = zip(self.ours.steps_per_second, self.peer.steps_per_second, strict=True)
        return tuple(a / b for a, b in pairs)

    @property
    def _measured(self) -> tuple[Measured, ...]:
        return tuple(m for m in (self.ours, self.rollouts, self.peer) if m is not None)

    def as_text(self) -> str:
        """Return a table of speeds, ratios and time shares."""
        rows = [
            (m.name, f"{m.median:,.0f}", " ".join(f"{s:,.0f}" for s in m.steps_per_second))
            for m in self._measured
        ]
        lines = [self.conditions, columns(rows, header=(self.task, "steps/s", "each repeat"))]
        if self.ratios:
            each = " ".join(f"{ratio:.2f}" for ratio in self.ratios)
            lines.append(f"ratio {statistics.median(self.ratios):.2f} (each repeat: {each})")
        shares = ", ".join(f"{name} {100 * s:.0f} %" for name, s in self.ours.shares.items())
        lines.append(f"longhaul's time: {shares}")
        return "\n\n".join(lines)

    def as_json(self) -> str:
        """Return the measurements for programs."""
        return json.dumps(
            {
                "task": self.task,
                "conditions": self.conditions,
                "steps_per_second": {m.name: m.steps_per_second for m in self._measured},
                "ratios": self.ratios,
                "shares": self.ours.shares,
            }
        )


class Stopwatch:
    """Times a run from the end of its first iteration, so that set-up does not count.

    Asked at the start of every iteration; it never gives a reason to stop.
    """

    def __init__(self) -> None:
        self._marks: list[tuple[float, int]] = []

    def __call__(self, progress: Progress) -> str | None:
        """Take the time."""
        self._marks.append((time.perf_counter(), progress.env_steps))
        return None

    @property
    def steps_per_second(self) -> float:
        """Steps over seconds since the first iteration ended."""
        if len(self._marks) < 3:
            raise too_few_steps()
        (began, before), (ended, after) = self._marks[1], self._marks[-1]
        return (after - before) / (ended - began)


class CpuStopwatch(Stopwatch):
    """Times a run in CPU time as well, that of its threads included."""

    def __init__(self) -> None:
        super().__init__()
        self._cpu: list[float] = []

    def __call__(self, progress: Progress) -> str | None:
        """Take both times."""
        self._cpu.append(time.process_time())
        return super().__call__(progress)

    @property
    def rates(self) -> tuple[float, float]:
        """Steps per second and per CPU-second since the first iteration ended."""
        wall = self.steps_per_second
        moved = self._marks[-1][1] - self._marks[1][1]
        return wall, moved / (self._cpu[-1] - self._cpu[1])


def too_few_steps() -> ConfigError:
    """Return the error of a measurement that ended with its first iteration."""
    return ConfigError("too few steps to measure; raise --total-timesteps")


def bench_preset(task: str) -> str:
    """Return the preset to measure with when none is named: `bench`, where the task has one."""
    return "bench" if "bench" in find_kind(task).preset_names() else ""


def bench_training(config: RunConfig, request: BenchRequest) -> Benchmark:
    """Measure us and the peer in turn, with the same network, batch and epochs."""
    if request.peer not in PEERS:
        raise ConfigError(f"--peer {request.peer!r} is not known; use one of {', '.join(PEERS)}")
    if request.repeats < 1:
        raise ConfigError("--repeats must be at least 1")
    config = only_training(config, request.total_timesteps)
    peer = find_peer(request.peer)
    ours: list[float] = []
    rollouts: list[float] = []
    theirs: list[float] = []
    shares: dict[str, float] = {}
    for _ in range(request.repeats):
        speed, shares = measure_ours(config)
        ours.append(speed)
        rollouts.append(measure_rollouts(config))
        if peer is not None:
            theirs.append(peer(config))
    return Benchmark(
        config.task,
        conditions(config),
        Measured("longhaul", tuple(ours), shares),
        Measured("longhaul, rollouts alone", tuple(rollouts)),
        Measured(request.peer, tuple(theirs)) if theirs else None,
    )


def only_training(config: RunConfig, total_timesteps: int) -> RunConfig:
    """Return the same run without evaluations, of so many steps; 0: of as many as are enough."""
    if not total_timesteps:
        rows = config.num_envs * build_task(config).envs.spec.rows * config.collect.steps
        total_timesteps = max(LEAST_STEPS, (1 + LEAST_ITERATIONS) * rows)
    return replace(
        config,
        total_timesteps=total_timesteps,
        total_iterations=0,
        evaluate=replace(config.evaluate, every_iterations=0, final_episodes=0),
        report=replace(config.report, at_end=False),
    )


def measure_rollouts(config: RunConfig) -> float:
    """Return how many steps a second are collected when nothing is learned from them."""
    task = build_task(config)
    settings = build_settings(config, task)
    torch.set_num_threads(config.threads)
    policy = build_policy(config, task, torch.device("cpu"))
    alone = replace(config, collect=replace(config.collect, overlap=False))
    collector = build_collector(alone, task, policy)
    rows = config.num_envs * task.envs.spec.rows * config.collect.steps
    count = max(config.total_timesteps // rows, 1)
    try:
        collector.collect(settings)
        began = time.perf_counter()
        for _ in range(count):
            collector.collect(settings)
        return count * rows / (time.perf_counter() - began)
    finally:
        collector.close()


def conditions(config: RunConfig, also: str = "the same network on both sides") -> str:
    """Return in one line what was measured."""
    learn = config.learn
    return (
        f"{config.num_envs} envs, {config.collect.steps} steps, {learn.epochs} epochs, "
        f"minibatch {learn.minibatch}, {config.threads} thread(s), "
        f"overlap {'on' if config.collect.overlap else 'off'}, {also}"
    )


def measure_ours(config: RunConfig) -> tuple[float, dict[str, float]]:
    """Return our speed in a complete run, logs and checkpoints included, and the time shares."""
    watch = Stopwatch()
    shares = time_shares(measure_run(config, watch))
    return watch.steps_per_second, shares


def time_shares(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return which share of a run's time each stage took, from its metrics."""
    rows = list(rows)
    spent = {
        name: sum(row.get(f"time/{name}_seconds", 0.0) for row in rows)
        for name in (*STAGES, "other")
    }
    total = sum(spent.values())
    return {name: s / total for name, s in spent.items() if s > 0}


def measure_run(config: RunConfig, watch: Until) -> list[dict[str, Any]]:
    """Train a complete run in a temporary place and return its metrics."""
    with TemporaryDirectory(prefix="longhaul-bench-") as folder:
        run = begin_run(config, Path(folder))
        code = carry_out(run, config, Asked(quiet=True), also_until=watch)
        if code:
            # A signal ended the run: it is meant for the whole measurement.
            raise SystemExit(code)
        return list(read_metrics(run).rows)


def find_peer(name: str) -> Callable[[RunConfig], float] | None:
    """Return how to measure a peer, if one is wanted."""
    if name == "none":
        return None
    from longhaul.app.peers.sb3 import measure_sb3

    return measure_sb3
