"""What watching a run costs, measured with and without, in turn."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, replace

from longhaul.app.bench import CpuStopwatch, measure_run, only_training
from longhaul.app.config import RunConfig
from longhaul.app.text import columns
from longhaul.core.errors import ConfigError

OFF, ON, TENSORBOARD, DEAD = "off", "on", "on, with TensorBoard", "on, with a dead tracker"


@dataclass(frozen=True, slots=True)
class Overhead:
    """Steps per second and per second of processor time, of each way, repeat by repeat."""

    task: str
    rates: dict[str, tuple[tuple[float, float], ...]]

    def cost(self, way: str, against: str, *, by_cpu: bool) -> float:
        """Return the share of throughput a way costs beside another: the median over repeats."""
        column = int(by_cpu)
        pairs = zip(self.rates[way], self.rates[against], strict=True)
        return 1.0 - statistics.median(one[column] / other[column] for one, other in pairs)

    def as_text(self) -> str:
        """Return a table of speeds and costs."""
        rows = []
        for way, measured in self.rates.items():
            wall = statistics.median(rate for rate, _ in measured)
            against = ON if way in (TENSORBOARD, DEAD) else OFF
            costs = (
                ("", "", "")
                if way == OFF
                else (
                    f"{100 * self.cost(way, against, by_cpu=False):+.2f} %",
                    f"{100 * self.cost(way, against, by_cpu=True):+.2f} %",
                    against,
                )
            )
            rows.append((way, f"{wall:,.0f}", *costs))
        header = (self.task, "steps/s", "costs", "costs of processor time", "beside")
        count = len(next(iter(self.rates.values())))
        return f"{columns(rows, header=header)}\n\nmedians of {count} repeats, taken in turn"

    def as_json(self) -> str:
        """Return the measurements for programs."""
        costs = {
            way: {
                "wall": self.cost(way, ON if way in (TENSORBOARD, DEAD) else OFF, by_cpu=False),
                "cpu": self.cost(way, ON if way in (TENSORBOARD, DEAD) else OFF, by_cpu=True),
            }
            for way in self.rates
            if way != OFF
        }
        return json.dumps({"task": self.task, "rates": self.rates, "costs": costs})


def bench_overhead(config: RunConfig, *, total_timesteps: int, repeats: int) -> Overhead:
    """Train with everything that watches, with nothing, and with trackers, in turn."""
    if repeats < 1:
        raise ConfigError("--repeats must be at least 1")
    config = only_training(config, total_timesteps)
    found: dict[str, list[tuple[float, float]]] = {}
    for repeat in range(repeats):
        ways = list(arms(config).items())
        # In turns of changing order: a machine that gets slower must not favour one way.
        for way, one in ways if repeat % 2 == 0 else reversed(ways):
            watch = CpuStopwatch()
            measure_run(one, watch)
            found.setdefault(way, []).append(watch.rates)
    return Overhead(config.task, {way: tuple(found[way]) for way in arms(config)})


def arms(config: RunConfig) -> dict[str, RunConfig]:
    """Return the ways that are compared."""
    on = replace(config, track=replace(config.track, to=()))
    patience = 0.1  # at the end, which is not measured
    return {
        OFF: unwatched(config),
        ON: on,
        TENSORBOARD: replace(config, track=replace(config.track, to=("tensorboard",))),
        DEAD: replace(
            config, track=replace(config.track, to=("dead",), patience_seconds=patience, queue=10)
        ),
    }


def unwatched(config: RunConfig) -> RunConfig:
    """Return the same run without hints, watchdog, heartbeat, resources, tables and trackers."""
    return replace(
        config,
        hints=replace(config.hints, enabled=False),
        watch=replace(config.watch, enabled=False, heartbeat_seconds=0.0),
        log=replace(config.log, table=False, resource_seconds=0.0),
        track=replace(config.track, to=()),
    )
