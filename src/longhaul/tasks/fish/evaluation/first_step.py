"""Deaths in the first step of an evaluation: records, and clusters by heading and speed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Episode
from longhaul.core.metrics import Metric, Metrics
from longhaul.tasks.fish.evaluation.suites import FishSuite, UnavoidableDeaths, begin_suite
from longhaul.tasks.fish.options import FishOptions
from longhaul.tasks.fish.world.school import DEATH_STEPS, FIRST_STEP_PLACES
from longhaul.tasks.fish.world.starts import heading, speed
from longhaul.tasks.fish.world.world import KEEP

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class FirstStepDeath:
    """A fish that died in the first step; positions and velocities are those after the step."""

    fish_idx: int
    predator_index: int
    fish_position: Point
    predator_position: Point
    predator_velocity: Point
    episode: int  # its place in the suite
    seed: int
    distance: float  # between the two
    start_velocity: Point  # the fish's, before the step
    predator_start_velocity: Point
    avoidable: bool  # some action would have saved it
    timestep: int = 1
    iteration: int | None = None
    tail_stage_label: str | None = None
    tail_stage_type: str | None = None

    @staticmethod
    def of(row: Mapping[str, Any]) -> FirstStepDeath:
        """Return the record a log holds."""
        return msgspec.convert(row, FirstStepDeath)


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """The first steps of a suite's episodes, which do not depend on the fish."""

    suite: FishSuite
    fish: NDArray[np.float32]  # [episodes, fish, 4] at the start
    predators: NDArray[np.float32]  # [episodes, predators, 4] at the start
    hunted: NDArray[np.float32]  # the same after the first step
    doomed: NDArray[np.bool_]  # [episodes, fish]
    places: dict[int, int] = field(default_factory=dict)  # of each seed in the suite

    @staticmethod
    def of(suite: FishSuite, options: FishOptions, bound: UnavoidableDeaths) -> FirstSteps:
        """Return the first steps of a suite in a world.

        A predator's first step does not depend on the fish's actions, so any action shows it.
        """
        schools, _ = begin_suite(suite, suite.options(options))
        fish, predators = schools.world.fish.copy(), schools.world.predators.copy()
        rows = schools.count * schools.spec.rows
        schools.step(0, schools.count, np.full(rows, KEEP))
        places = {start.seed: place for place, start in enumerate(suite.starts)}
        hunted = schools.world.predators.copy()
        return FirstSteps(suite, fish, predators, hunted, bound.doomed, places)

    def deaths(self, episodes: Sequence[Episode]) -> tuple[FirstStepDeath, ...]:
        """Return the records of all fish that died in the first step, in order."""
        return tuple(
            self._record(
                self.places[episode.seed], fish, episode.facts[FIRST_STEP_PLACES][str(fish)]
            )
            for episode in episodes
            for fish, step in enumerate(episode.facts[DEATH_STEPS])
            if step == 1
        )

    def _record(self, place: int, fish: int, position: Sequence[float]) -> FirstStepDeath:
        x, y = position
        distances = [
            math.hypot(x - hunter[0], y - hunter[1]) for hunter in self.hunted[place].tolist()
        ]
        catcher = int(np.argmin(distances))
        hunter = self.hunted[place, catcher].tolist()
        before = self.predators[place, catcher].tolist()
        swam = self.fish[place, fish].tolist()
        return FirstStepDeath(
            fish_idx=fish,
            predator_index=catcher,
            fish_position=(x, y),
            predator_position=(hunter[0], hunter[1]),
            predator_velocity=(hunter[2], hunter[3]),
            episode=place,
            seed=self.suite.starts[place].seed,
            distance=distances[catcher],
            start_velocity=(swam[2], swam[3]),
            predator_start_velocity=(before[2], before[3]),
            avoidable=not self.doomed[place, fish],
        )


ANGLE_BIN = 30.0
SPEED_BIN = 0.4
Bin = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Cluster:
    """One bucket of headings and speeds."""

    angle_deg_start: float
    angle_deg_end: float
    speed_bin_start: float
    speed_bin_end: float
    count: int
    share: float
    episodes: int
    """Distinct episodes: all deaths of one episode meet one predator and share a bucket, so a
    large bucket may be a single unlucky start."""
    episode_share: float


@dataclass(frozen=True, slots=True)
class Clusters:
    """All buckets that are not empty, the largest first, equals by heading and then by speed."""

    total: int
    angle_bin_deg: float
    speed_bin: float
    clusters: tuple[Cluster, ...]
    episodes: int

    def as_row(self) -> dict[str, Any]:
        """Return plain values."""
        row: dict[str, Any] = msgspec.to_builtins(self)
        return row

    @property
    def top_share(self) -> float | None:
        """The share of the largest bucket; None without deaths."""
        return self.clusters[0].share if self.clusters else None


@dataclass(frozen=True, slots=True)
class Sector:
    """Headings in degrees between two limits, at speeds that reach a third."""

    low: float = 90.0
    high: float = 150.0
    least_speed: float = 1.8

    def share(self, clusters: Clusters) -> float | None:
        """Return the share of the buckets that touch the sector; None without deaths."""
        if not clusters.clusters:
            return None
        return math.fsum(c.share for c in clusters.clusters if self._touches(c))

    def _touches(self, cluster: Cluster) -> bool:
        turned = cluster.angle_deg_start < self.high and cluster.angle_deg_end > self.low
        return turned and cluster.speed_bin_end > self.least_speed


NORTH_TO_NORTH_WEST = Sector()
"""The sector the original called north-east: fast predators heading from 90 to 150 degrees."""


def bucket(velocity: tuple[float, float], angle_bin: float, speed_bin: float) -> Bin:
    """Return the numbers of a velocity's bins."""
    # A speed of 1.2 is in the bin that begins at 1.2, though 1.2 / 0.4 is a little below 3.
    return int(heading(velocity) // angle_bin), math.floor(speed(velocity) / speed_bin + 1e-9)


def cluster(
    records: Iterable[FirstStepDeath], *, angle_bin: float = ANGLE_BIN, speed_bin: float = SPEED_BIN
) -> Clusters:
    """Return the deaths in buckets of the predator's velocity."""
    deaths: Counter[Bin] = Counter()
    starts: dict[Bin, set[int]] = {}
    for record in records:
        place = bucket(record.predator_velocity, angle_bin, speed_bin)
        deaths[place] += 1
        starts.setdefault(place, set()).add(record.seed)
    total = deaths.total()
    met = len(set().union(*starts.values()))
    ranked = sorted(deaths.items(), key=lambda one: (-one[1], one[0]))
    return Clusters(
        total=total,
        angle_bin_deg=angle_bin,
        speed_bin=speed_bin,
        clusters=tuple(
            Cluster(
                angle_deg_start=turn * angle_bin,
                angle_deg_end=(turn + 1) * angle_bin,
                speed_bin_start=round(pace * speed_bin, 9),
                speed_bin_end=round((pace + 1) * speed_bin, 9),
                count=count,
                share=count / total,
                episodes=len(starts[turn, pace]),
                episode_share=len(starts[turn, pace]) / met,
            )
            for (turn, pace), count in ranked
        ),
        episodes=met,
    )


RECORD = "step_one_deaths"
"""The part of an evaluation's event that holds the records."""
_LEFT_OUT = ("iteration", "tail_stage_label", "tail_stage_type")

METRICS = (
    Metric("eval/step_one_top_share", "share of the largest bucket of headings and speeds"),
    Metric("eval/step_one_sector_share", "share of fast predators that head for 90 to 150 degrees"),
    Metric("eval/step_one_ne_high_speed_share", "old name of `eval/step_one_sector_share`"),
    Metric("eval/step_one_episodes", "episodes with a death in the first step"),
)


def first_step_metrics(steps: FirstSteps, episodes: Sequence[Episode]) -> Metrics:
    """Return the shares of an evaluation; none without deaths or where no places were kept."""
    if any(FIRST_STEP_PLACES not in episode.facts for episode in episodes):
        return {}
    found = cluster(steps.deaths(episodes))
    metrics = {"eval/step_one_episodes": float(found.episodes)}
    top, sector = found.top_share, NORTH_TO_NORTH_WEST.share(found)
    if top is not None and sector is not None:
        metrics["eval/step_one_top_share"] = top
        metrics["eval/step_one_sector_share"] = sector
        metrics["eval/step_one_ne_high_speed_share"] = sector
    return metrics


def first_step_record(steps: FirstSteps, episodes: Sequence[Episode]) -> dict[str, Any]:
    """Return the records of an evaluation for the run's events, which hold the iteration."""
    return {
        RECORD: [
            {
                name: value
                for name, value in msgspec.to_builtins(death).items()
                if name not in _LEFT_OUT
            }
            for death in steps.deaths(episodes)
        ]
    }
