"""What watching a run costs: runs with and without take turns, one iteration each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from longhaul.app.assemble import build_task
from longhaul.app.bench.training import only_training, too_few_steps
from longhaul.app.bench.turns import Turn, take_turns
from longhaul.app.config import RunConfig
from longhaul.app.text import columns
from longhaul.core.seeds import Seeds

OFF, ON, TENSORBOARD, DEAD = "off", "on", "on, with TensorBoard", "on, with a dead tracker"
AGAIN = "off, once more"
"""The same as off: what is told of it is the noise of the measurement."""
RESAMPLES = 10_000
LEAST_TURNS = 3  # of which the first and the last do not count


@dataclass(frozen=True, slots=True)
class Cost:
    """The share of throughput that something costs, and its interval."""

    share: float
    low: float
    high: float

    def as_text(self) -> str:
        """Return it in percent."""
        return f"{100 * self.share:+.2f} % ({100 * self.low:+.2f} to {100 * self.high:+.2f})"


@dataclass(frozen=True, slots=True)
class Overhead:
    """What every iteration took, of each way; iterations of one number were neighbours in time."""

    task: str
    steps: int  # of an iteration
    turns: Mapping[str, tuple[Turn, ...]]

    def cost(self, way: str, *, by_cpu: bool) -> Cost:
        """Return the share of throughput a way costs beside the one it adds to."""
        ours, theirs = (_seconds(self.turns[one], by_cpu=by_cpu) for one in (way, beside(way)))
        draws = Seeds(0).generator("overhead").integers(0, len(ours), (RESAMPLES, len(ours)))
        found = 1.0 - theirs[draws].sum(axis=1) / ours[draws].sum(axis=1)
        low, high = np.percentile(found, (2.5, 97.5))
        return Cost(float(1.0 - theirs.sum() / ours.sum()), float(low), float(high))

    def speed(self, way: str) -> float:
        """Return how many steps a second a way made in its turns."""
        turns = self.turns[way]
        return self.steps * len(turns) / sum(turn.seconds for turn in turns)

    def as_text(self) -> str:
        """Return a table of speeds and costs."""
        rows = []
        for way in self.turns:
            costs = [self.cost(way, by_cpu=by_cpu).as_text() for by_cpu in (False, True)]
            told = ("", "", "") if way == OFF else (*costs, beside(way))
            rows.append((way, f"{self.speed(way):,.0f}", *told))
        header = (self.task, "steps/s", "costs", "costs of processor time", "beside")
        count = len(self.turns[OFF])
        return (
            f"{columns(rows, header=header)}\n\n"
            f"{count} iterations of each, in turn, and the 95 % intervals of the costs"
        )

    def as_json(self) -> str:
        """Return the measurements for programs."""
        costs = {
            way: {
                name: asdict(self.cost(way, by_cpu=by_cpu))
                for name, by_cpu in (("wall", False), ("cpu", True))
            }
            for way in self.turns
            if way != OFF
        }
        speeds = {way: self.speed(way) for way in self.turns}
        return json.dumps({"task": self.task, "steps_per_second": speeds, "costs": costs})


def _seconds(turns: tuple[Turn, ...], *, by_cpu: bool) -> NDArray[np.float64]:
    return np.array([turn.cpu_seconds if by_cpu else turn.seconds for turn in turns])


def beside(way: str) -> str:
    """Return the way that another adds something to."""
    return ON if way in (TENSORBOARD, DEAD) else OFF


def bench_overhead(
    config: RunConfig, *, total_timesteps: int, with_trackers: bool = True
) -> Overhead:
    """Train with everything that watches, with nothing, and with trackers, in turn."""
    # A rollout that is collected in the background would run in the others' turns.
    config = replace(config, collect=replace(config.collect, overlap=False))
    config = only_training(config, total_timesteps)
    chosen = arms(config)
    if not with_trackers:
        chosen = {way: chosen[way] for way in (OFF, ON, AGAIN)}
    steps = config.num_envs * build_task(config).envs.spec.rows * config.collect.steps
    if config.total_timesteps < LEAST_TURNS * steps:
        raise too_few_steps()
    return Overhead(config.task, steps, take_turns(chosen))


def arms(config: RunConfig) -> dict[str, RunConfig]:
    """Return the ways that are compared."""
    on = replace(config, track=replace(config.track, to=()))
    patience = 0.1  # at the end, which is not measured
    return {
        OFF: unwatched(config),
        ON: on,
        AGAIN: unwatched(config),
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
