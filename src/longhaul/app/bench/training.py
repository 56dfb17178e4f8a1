"""Measuring training speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from longhaul.app.bench.table import Speeds, SpeedTable, ratio
from longhaul.app.build.components import (
    CollectorMonitor,
    build_collector,
    build_policy,
    build_settings,
    build_task,
)
from longhaul.app.build.config import RunConfig, SessionOptions
from longhaul.app.build.sources import find_kind
from longhaul.app.diagnose.trials import modes
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.core.control import Progress
from longhaul.core.env import EnvSource
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.engine.stop import Until
from longhaul.engine.summary import STAGES
from longhaul.envs.build import Supervision, make_vector_env
from longhaul.envs.checks import allowed_actions, random_actions
from longhaul.envs.config import EnvConfig, Runtime
from longhaul.envs.processes.vector import share_out
from longhaul.learn.backend import find_backends
from longhaul.runs.reader import read_metrics

LEAST_STEPS = 100_000
LEAST_ITERATIONS = 12
OURS, ROLLOUTS = "longhaul", "longhaul, rollouts alone"

Peer = Callable[[RunConfig], float]
"""Returns the steps per second of another trainer under the same conditions."""


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """What to measure."""

    total_timesteps: int = 0
    """Steps of each measurement; 0 chooses a sufficient number."""
    repeats: int = 3

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise ConfigError("--repeats must be at least 1")


class IterationTimer:
    """Times a run from the end of its first iteration, without the set-up.

    It is called as a stop condition at the start of every iteration, and never stops the run.
    """

    def __init__(self) -> None:
        self.marks: list[tuple[float, int]] = []

    def __call__(self, progress: Progress) -> str | None:
        """Record the time."""
        self.marks.append((time.perf_counter(), progress.env_steps))
        return None

    @property
    def steps_per_second(self) -> float:
        """Steps over seconds since the first iteration ended."""
        if len(self.marks) < 3:
            raise too_few_steps()
        (began, before), (ended, after) = self.marks[1], self.marks[-1]
        return (after - before) / (ended - began)


def too_few_steps() -> ConfigError:
    """Return the error of a measurement that ended with its first iteration."""
    return ConfigError("too few steps to measure; raise --total-timesteps")


def bench_preset(task: str) -> str:
    """Return the default preset of benchmarks: `bench`, if the task has it."""
    return "bench" if "bench" in find_kind(task).preset_names() else ""


def bench_training(
    config: RunConfig, request: BenchRequest, peers: Mapping[str, Peer] | None = None
) -> SpeedTable:
    """Measure training, rollouts alone and the given peers in turn, under the same conditions."""
    config = only_training(config, request.total_timesteps)
    shares: dict[str, float] = {}

    def ours(config: RunConfig) -> float:
        nonlocal shares
        speed, shares = measure_ours(config)
        return speed

    systems: dict[str, Peer] = {OURS: ours, ROLLOUTS: measure_rollouts, **(peers or {})}
    found: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(request.repeats):
        for name, measure in systems.items():
            found[name].append(measure(config))
    split = ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items())
    return SpeedTable(
        config.task,
        conditions(config),
        tuple(Speeds(name, tuple(each)) for name, each in found.items()),
        {f"{OURS} / {peer}": ratio(found[OURS], found[peer]) for peer in peers or ()},
        notes=(f"longhaul's time: {split}",),
        values={"shares": shares},
    )


def only_training(config: RunConfig, total_timesteps: int) -> RunConfig:
    """Return the run without evaluations and with so many steps; 0 chooses a number."""
    if not total_timesteps:
        rows = config.num_envs * build_task(config).envs.spec.rows * config.collect.num_steps
        total_timesteps = max(LEAST_STEPS, (1 + LEAST_ITERATIONS) * rows)
    return replace(
        config,
        total_timesteps=total_timesteps,
        total_iterations=0,
        total_episodes=0,
        evaluate=replace(config.evaluate, every_iterations=0, final_episodes=0),
        report=replace(config.report, at_end=False),
    )


def measure_rollouts(config: RunConfig) -> float:
    """Return the steps per second of collecting without learning."""
    task = build_task(config)
    settings = build_settings(config, task)
    torch.set_num_threads(config.threads)
    policy = build_policy(config, task, torch.device("cpu"))
    alone = replace(config, collect=replace(config.collect, overlap=False))
    acting = find_backends(policy, config.learn, learners=1, begun=None).acting
    collector = build_collector(alone, task, policy, CollectorMonitor(), acting)
    rows = config.num_envs * task.envs.spec.rows * config.collect.num_steps
    count = max(config.total_timesteps // rows, 1)
    try:
        collector.collect(settings)
        began = time.perf_counter()
        for _ in range(count):
            collector.collect(settings)
        return count * rows / (time.perf_counter() - began)
    finally:
        collector.close()


def conditions(config: RunConfig, also: str = "the same network on all sides") -> str:
    """Return the conditions of a measurement in one line."""
    learn = config.learn
    return (
        f"{config.num_envs} envs, {config.collect.num_steps} steps, {learn.n_epochs} epochs, "
        f"minibatch {learn.minibatch_size}, {config.threads} thread(s), "
        f"overlap {'on' if config.collect.overlap else 'off'}, {also}"
    )


def measure_ours(config: RunConfig) -> tuple[float, dict[str, float]]:
    """Return the speed of a complete run, including logs and checkpoints, and the time shares."""
    watch = IterationTimer()
    shares = time_shares(measure_run(config, watch))
    return watch.steps_per_second, shares


def time_shares(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return each stage's share of a run's time, from its metrics."""
    rows = list(rows)
    spent = {
        name: sum(row.get(f"time/{name}_seconds", 0.0) for row in rows)
        for name in (*STAGES, "other")
    }
    total = sum(spent.values())
    return {name: s / total for name, s in spent.items() if s > 0}


def measure_run(config: RunConfig, watch: Until) -> list[dict[str, Any]]:
    """Train a complete run in a temporary folder and return its metrics."""
    with TemporaryDirectory(prefix="longhaul-bench-") as folder:
        run = begin_run(config, Path(folder)).directory
        code = run_session(run, config, SessionOptions(quiet=True), also_until=watch).exit_code
        if code:
            # A signal ended the run; it ends the whole measurement.
            raise SystemExit(code)
        return list(read_metrics(run).rows)


WARM_UP_SHARE = 0.2
BATCH = 8  # steps between two readings of the clock
DRAWN = 64  # random actions, drawn before the measurement and reused

Advance = Callable[[int], None]
"""Takes the n-th step in every environment."""
System = Callable[[], AbstractContextManager[Advance]]


@dataclass(frozen=True, slots=True)
class EnvBenchRequest:
    """What to measure."""

    num_envs: int = 16
    runtime: str = "both"
    seconds: float = 2.0
    repeats: int = 3

    def __post_init__(self) -> None:
        for flag, value in (("--num-envs", self.num_envs), ("--repeats", self.repeats)):
            if value < 1:
                raise ConfigError(f"{flag} must be at least 1, not {value}")
        if not self.seconds > 0:
            raise ConfigError(f"--seconds must be more than 0, not {self.seconds}")


def bench_env(
    config: RunConfig, request: EnvBenchRequest, peers: Mapping[str, System] | None = None
) -> SpeedTable:
    """Measure longhaul's runtimes and the given peers in turn on the same environment."""
    source = build_task(config).envs
    ours: dict[str, System] = {
        f"longhaul {mode}": partial(our_vector, source, mode, request.num_envs, config.env)
        for mode in modes(source, request.runtime)
    }
    systems = {**ours, **(peers or {})}
    rows = request.num_envs * source.spec.rows
    found: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(request.repeats):
        for name, system in systems.items():
            with system() as advance:
                found[name].append(rows * steps_per_second(advance, seconds=request.seconds))
    return SpeedTable(
        config.task,
        env_conditions(source, config.env, request),
        tuple(Speeds(name, tuple(each)) for name, each in found.items()),
        {
            f"{mine} / {peer}": ratio(found[mine], found[peer])
            for mine in ours
            for peer in peers or ()
        },
    )


def env_conditions(source: EnvSource, env: EnvConfig, request: EnvBenchRequest) -> str:
    """Return the conditions of a measurement in one line."""
    shown = ", ".join(f"{p.dtype} {p.shape}" for p in source.spec.observation.values())
    workers = len(share_out(request.num_envs, env.processes.workers))
    return (
        f"{request.num_envs} envs with observations {shown}; random actions drawn before; "
        f"{request.seconds:g} s each, in turn; longhaul's processes runtime has {workers} worker(s)"
    )


@contextmanager
def our_vector(
    source: EnvSource, runtime: Runtime, num_envs: int, env: EnvConfig
) -> Iterator[Advance]:
    """Yield the step function of one of longhaul's runtimes, after a reset."""
    vector = make_vector_env(
        source,
        count=num_envs,
        seeds=DerivedSeeds(Seeds(1), "bench"),
        runtime=runtime,
        threads=env.threads,
        supervision=Supervision.of(env),
    )
    try:
        drawn = random_actions(replace(source.spec, rows=vector.rows), DRAWN, 1)
        vector.reset()

        def advance(number: int) -> None:
            vector.step(allowed_actions(source.spec, vector.slots, drawn[number % DRAWN]))

        yield advance
    finally:
        vector.close()


def steps_per_second(
    advance: Advance, *, seconds: float, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return vector steps per second, after a warm-up that is not measured."""
    _advance_for(advance, seconds * WARM_UP_SHARE, clock)
    steps, took = _advance_for(advance, seconds, clock)
    return steps / took


def _advance_for(advance: Advance, seconds: float, clock: Callable[[], float]) -> tuple[int, float]:
    began = clock()
    steps = 0
    while (took := clock() - began) < seconds or not steps:
        for _ in range(BATCH):
            advance(steps)
            steps += 1
    return steps, took
