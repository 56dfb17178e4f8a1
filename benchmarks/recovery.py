"""How soon environments are back, and as fast as before, after a worker was killed.

Ends with exit code 3 if they were not as fast again within 10 seconds every time.
"""

from __future__ import annotations

import itertools
import os
import signal
import statistics
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from benchmarks import command
from longhaul.app.bench.table import Section, SpeedTable
from longhaul.app.bench.training import DRAWN
from longhaul.app.build.components import build_task
from longhaul.app.build.config import RunConfig
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.core.env import SingleEnvs
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.envs.checks import allowed_actions, random_actions
from longhaul.envs.processes.vector import ProcessVectorEnv

AS_BEFORE = 0.95
WARM_UP_STEPS = 20


@dataclass(frozen=True, slots=True)
class RecoveryRequest:
    """What to measure."""

    num_envs: int = 16
    kills: int = 20
    window_seconds: float = 1.0
    limit_seconds: float = 10.0

    def __post_init__(self) -> None:
        for flag, value in (("--num-envs", self.num_envs), ("--kills", self.kills)):
            if value < 1:
                raise ConfigError(f"{flag} must be at least 1, not {value}")
        if not 0 < self.window_seconds <= self.limit_seconds:
            raise ConfigError(
                f"--window {self.window_seconds} must be more than 0, at most {self.limit_seconds}"
            )


@dataclass(frozen=True, slots=True)
class Killed:
    """What one kill did to the speed."""

    back_seconds: float  # until the step that was held up was over
    fast_seconds: float | None  # until a window of steps was as fast as before; None for never
    steady: float  # speed of the window before over the one before that, both undisturbed
    after: float  # speed of the first whole window once back over the window before


def is_fast_again(kills: Sequence[Killed]) -> bool:
    """Return whether the speed came back after every kill."""
    return all(kill.fast_seconds is not None for kill in kills)


def as_table(task: str, conditions: str, limit: float, kills: Sequence[Killed]) -> SpeedTable:
    """Return all kills of one measurement."""
    back = [kill.back_seconds for kill in kills]
    fast = [kill.fast_seconds for kill in kills if kill.fast_seconds is not None]
    rows = [
        (title, *(_seconds(times, share) for share in (50, 95, 100)))
        for title, times in (
            ("all environments back", back),
            (f"as fast again ({AS_BEFORE:.0%})", fast),
        )
        if times
    ]
    return SpeedTable(
        task,
        conditions,
        sections=(Section((f"after {len(kills)} kills", "p50", "p95", "longest"), rows),),
        notes=(
            f"not as fast again within {limit:g} s: {len(kills) - len(fast)} of {len(kills)}",
            "speed in windows side by side, median (lowest to highest): "
            f"undisturbed {_ratios([kill.steady for kill in kills])}, "
            f"after over before {_ratios([kill.after for kill in kills])}",
        ),
        values={"kills": [asdict(kill) for kill in kills]},
    )


def _seconds(values: Sequence[float], share: int) -> str:
    return f"{float(np.percentile(values, share)):.2f} s"


def _ratios(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def bench_recovery(config: RunConfig, request: RecoveryRequest) -> tuple[SpeedTable, list[Killed]]:
    """Kill workers of a task's environments in mid-step, again and again, and measure."""
    source = build_task(config).envs
    if not isinstance(source, SingleEnvs):
        raise ConfigError(
            f"{config.task} runs in the trainer's process: it has no workers that could be killed"
        )
    # It is the recovery that is measured, not the budget that ends a run which needs it too often.
    processes = replace(config.env.processes, restarts_per_minute=10**6)
    vector = ProcessVectorEnv(
        source, request.num_envs, DerivedSeeds(Seeds(1), "bench"), config=processes
    )
    try:
        drawn = random_actions(replace(source.spec, rows=vector.rows), DRAWN, 1)
        vector.reset()
        number = 0

        def advance() -> None:
            nonlocal number
            vector.step(allowed_actions(source.spec, vector.slots, drawn[number % DRAWN]))
            number += 1

        for _ in range(WARM_UP_STEPS):
            advance()
        generator = Seeds(1).generator("bench", "kills")
        kills = []
        for _ in range(request.kills):
            pids = list(vector.pids().values())
            victim = pids[int(generator.integers(len(pids)))]
            kills.append(measure_kill(advance, victim, request))
        workers = len(pids)
    finally:
        vector.close()
    conditions = (
        f"{config.task}, {request.num_envs} envs in {workers} worker(s), random actions; a random "
        f"worker killed by SIGKILL each time; windows of {request.window_seconds:g} s"
    )
    return as_table(config.task, conditions, request.limit_seconds, kills), kills


def measure_kill(
    advance: Callable[[], None],
    victim: int,
    request: RecoveryRequest,
    *,
    kill: Callable[[int, int], None] = os.kill,
    clock: Callable[[], float] = time.perf_counter,
) -> Killed:
    """Step through two windows, have the victim killed, and step until all is as before."""
    window = request.window_seconds
    moments: list[float] = [clock()]
    killed_at: list[float] = []

    def strike() -> None:
        kill(victim, signal.SIGKILL)
        killed_at.append(clock())

    def step_until(moment: float) -> None:
        while moments[-1] < moment:
            advance()
            moments.append(clock())

    # From outside, by a separate clock: it meets a step wherever that is.
    killer = threading.Timer(2 * window, strike)
    killer.start()
    while not killed_at:
        step_until(moments[-1] + window / 10)
    killer.join()
    course = Course(moments, killed_at[0], window)
    step_until(killed_at[0] + window)
    step_until(course.back() + window)
    while (fast := course.fast_again()) is None:
        if moments[-1] > killed_at[0] + request.limit_seconds + window:
            break
        step_until(moments[-1] + window / 2)
    before = course.rate(killed_at[0] - window)
    return Killed(
        back_seconds=course.back() - killed_at[0],
        fast_seconds=fast,
        steady=before / max(course.rate(killed_at[0] - 2 * window), 1e-9),
        after=course.rate(course.back()) / max(before, 1e-9),
    )


@dataclass(frozen=True, slots=True)
class Course:
    """When each step was over, and when a worker was killed."""

    moments: list[float]
    killed_at: float
    window: float

    def rate(self, begin: float) -> float:
        """Return the steps a second that were over within the window from `begin` on."""
        first, last = (bisect_left(self.moments, at) for at in (begin, begin + self.window))
        return (last - first) / self.window

    def back(self) -> float:
        """Return when the step was over that took longest of those since the kill."""
        first = max(bisect_left(self.moments, self.killed_at), 1)
        lengths = [b - a for a, b in itertools.pairwise(self.moments[first - 1 :])]
        return self.moments[first + max(range(len(lengths)), key=lengths.__getitem__)]

    def fast_again(self) -> float | None:
        """Return how long after the kill a window begins that is as fast as the one before it."""
        wanted = AS_BEFORE * self.rate(self.killed_at - self.window)
        back = self.back()
        begins = np.arange(back, self.moments[-1] - self.window, self.window / 10)
        fast = (begin for begin in begins.tolist() if self.rate(begin) >= wanted)
        begin = next(fast, None)
        return None if begin is None else begin - self.killed_at


def main(words: Sequence[str]) -> int:
    """Measure and print."""
    parser = command.parser("recovery", __doc__, task="gym:CartPole-v1", repeats=0)
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--kills", type=int, default=20, help="workers, one after another")
    parser.add_argument("--window", type=float, default=1.0, help="seconds of each measurement")
    asked = parser.parse_args(words)
    config = resolve(ConfigSources(asked.task, overrides=asked.overrides))
    request = RecoveryRequest(asked.num_envs, asked.kills, asked.window)
    found, kills = bench_recovery(config, request)
    command.show(found, as_json=asked.json)
    return 0 if is_fast_again(kills) else 3


if __name__ == "__main__":
    command.run(main)
