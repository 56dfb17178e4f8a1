"""What watching a run costs: runs with and without hints, logs and trackers take turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import cast

import numpy as np
from benchmarks.processes import Turn, take_turns
from numpy.typing import NDArray

from benchmarks import command, dead_tracker
from longhaul.app.bench.table import Section, Speeds, SpeedTable
from longhaul.app.bench.training import only_training, too_few_steps
from longhaul.app.build.components import build_task
from longhaul.app.build.config import RunConfig
from longhaul.app.build.sources import resolve
from longhaul.core.seeds import Seeds
from longhaul.runs.config import TrackerName

OFF, ON, TENSORBOARD, DEAD = "off", "on", "on, with TensorBoard", "on, with a dead tracker"
AGAIN = "off, once more"
"""The same as off: what is printed of it is the noise of the measurement."""
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


Turns = Mapping[str, tuple[Turn, ...]]
"""What every iteration took, of each way; iterations of one number were neighbors in time."""


def cost(turns: Turns, way: str, *, by_cpu: bool) -> Cost:
    """Return the share of throughput a way costs beside the one it adds to."""
    ours, theirs = (_seconds(turns[one], by_cpu=by_cpu) for one in (way, beside(way)))
    draws = Seeds(0).generator("overhead").integers(0, len(ours), (RESAMPLES, len(ours)))
    found = 1.0 - theirs[draws].sum(axis=1) / ours[draws].sum(axis=1)
    low, high = np.percentile(found, (2.5, 97.5))
    return Cost(float(1.0 - theirs.sum() / ours.sum()), float(low), float(high))


def as_table(task: str, steps: int, turns: Turns) -> SpeedTable:
    """Return speeds and costs of turns of so many steps each."""
    speeds, costs, rows = [], {}, []
    for way, taken in turns.items():
        rate = steps * len(taken) / sum(turn.seconds for turn in taken)
        by_cpu = steps * len(taken) / sum(turn.cpu_seconds for turn in taken)
        speeds.append(Speeds(way, (rate,), (by_cpu,)))
        if way != OFF:
            both = {name: cost(turns, way, by_cpu=name == "cpu") for name in ("wall", "cpu")}
            costs[way] = {name: asdict(one) for name, one in both.items()}
            rows.append((way, *(one.as_text() for one in both.values()), beside(way)))
    return SpeedTable(
        task,
        f"{len(turns[OFF])} iterations of each, in turn, and the 95 % intervals of the costs",
        tuple(speeds),
        sections=(Section(("", "costs", "costs of processor time", "beside"), rows),),
        values={"costs": costs},
    )


def _seconds(turns: tuple[Turn, ...], *, by_cpu: bool) -> NDArray[np.float64]:
    return np.array([turn.cpu_seconds if by_cpu else turn.seconds for turn in turns])


def beside(way: str) -> str:
    """Return the way that another adds something to."""
    return ON if way in (TENSORBOARD, DEAD) else OFF


def bench_overhead(
    config: RunConfig, *, total_timesteps: int, with_trackers: bool = True
) -> SpeedTable:
    """Train with everything that watches, with nothing, and with trackers, in turn."""
    # A rollout that is collected in the background would run in the others' turns.
    config = replace(config, collect=replace(config.collect, overlap=False))
    config = only_training(config, total_timesteps)
    chosen = arms(config)
    if not with_trackers:
        chosen = {way: chosen[way] for way in (OFF, ON, AGAIN)}
    steps = config.num_envs * build_task(config).envs.spec.rows * config.collect.num_steps
    if config.total_timesteps < LEAST_TURNS * steps:
        raise too_few_steps()
    return as_table(config.task, steps, take_turns(chosen, dead_tracker.register))


def arms(config: RunConfig) -> dict[str, RunConfig]:
    """Return the ways that are compared."""
    on = replace(config, track=replace(config.track, to=()))
    dead = cast(TrackerName, "dead")
    patience = 0.1  # at the end, which is not measured
    return {
        OFF: unwatched(config),
        ON: on,
        AGAIN: unwatched(config),
        TENSORBOARD: replace(config, track=replace(config.track, to=("tensorboard",))),
        DEAD: replace(
            config, track=replace(config.track, to=(dead,), patience_seconds=patience, queue=10)
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


def main(words: Sequence[str]) -> None:
    """Measure and print."""
    parser = command.parser("overhead", __doc__, task="fish", repeats=0)
    command.add_training(parser, total_timesteps=8_000_000)
    parser.add_argument("--without-trackers", action="store_true")
    asked = parser.parse_args(words)
    found = bench_overhead(
        resolve(command.sources(asked)),
        total_timesteps=asked.total_timesteps,
        with_trackers=not asked.without_trackers,
    )
    command.show(found, as_json=asked.json)


if __name__ == "__main__":
    command.run(main)
