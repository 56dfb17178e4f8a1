"""Measuring what it costs a run to watch and explain itself."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, replace

from longhaul.app.bench import BenchRequest, CpuStopwatch, conditions, measure_run
from longhaul.app.config import RunConfig
from longhaul.app.text import columns
from longhaul.core.errors import ConfigError

WALL, CPU = 0, 1


@dataclass(frozen=True, slots=True)
class WatchingCost:
    """Steps a second and a CPU-second of the same run, watched and not, repeat by repeat."""

    task: str
    conditions: str
    watched: tuple[tuple[float, float], ...]
    bare: tuple[tuple[float, float], ...]

    def cost(self, clock: int) -> float:
        """The share of the speed that watching takes: the middle one of all pairs.

        Both of a pair ran one right after the other, so that what else the machine does in the
        course of an hour matters little.
        """
        pairs = zip(self.watched, self.bare, strict=True)
        return statistics.median(1.0 - watched[clock] / bare[clock] for watched, bare in pairs)

    def as_text(self) -> str:
        """Return a table of both and what watching costs."""
        rows = [
            (
                name,
                f"{statistics.median(pair[WALL] for pair in measured):,.0f}",
                f"{statistics.median(pair[CPU] for pair in measured):,.0f}",
                " ".join(f"{pair[CPU]:,.0f}" for pair in measured),
            )
            for name, measured in (("watched", self.watched), ("bare", self.bare))
        ]
        header = (self.task, "steps/s", "steps/CPU-s", "each repeat, steps/CPU-s")
        costs = (
            f"watching costs {100 * self.cost(CPU):.2f} % of the steps a CPU-second makes, "
            f"{100 * self.cost(WALL):.2f} % of those a second makes"
        )
        return "\n\n".join([self.conditions, columns(rows, header=header), costs])

    def as_json(self) -> str:
        """Return the measurements for programs."""
        return json.dumps(
            {
                "task": self.task,
                "conditions": self.conditions,
                "steps_per_second": {
                    "watched": [pair[WALL] for pair in self.watched],
                    "bare": [pair[WALL] for pair in self.bare],
                },
                "steps_per_cpu_second": {
                    "watched": [pair[CPU] for pair in self.watched],
                    "bare": [pair[CPU] for pair in self.bare],
                },
                "cost": {"wall": self.cost(WALL), "cpu": self.cost(CPU)},
            }
        )


def bench_watching(config: RunConfig, request: BenchRequest) -> WatchingCost:
    """Train the same run in turn with everything that watches it and with nothing of that.

    Whoever goes first in a pair changes every time, so that a machine that gets slower or faster
    favours neither.
    """
    if request.repeats < 1:
        raise ConfigError("--repeats must be at least 1")
    config = replace(
        config,
        total_timesteps=request.total_timesteps,
        total_iterations=0,
        evaluate=replace(config.evaluate, every_iterations=0, final_episodes=0),
    )
    both = (config, unwatched(config))
    found: tuple[list[tuple[float, float]], ...] = ([], [])
    for repeat in range(request.repeats):
        for place in (0, 1) if repeat % 2 == 0 else (1, 0):
            watch = CpuStopwatch()
            measure_run(both[place], watch)
            found[place].append(watch.rates)
    return WatchingCost(config.task, conditions(config), tuple(found[0]), tuple(found[1]))


def unwatched(config: RunConfig) -> RunConfig:
    """Return the config without hints, watchdog, heartbeat, resources, tables and trackers."""
    return replace(
        config,
        hints=replace(config.hints, enabled=False),
        watch=replace(config.watch, enabled=False, heartbeat_seconds=0.0),
        log=replace(config.log, table_seconds=0.0, resource_seconds=0.0),
        track=replace(config.track, to=()),
    )
