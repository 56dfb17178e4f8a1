"""Deaths in the first step by the predator's heading and speed, and the shares of some of them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from longhaul.tasks.fish.step_one.records import StepOneDeath
from longhaul.tasks.fish.tail.items import heading, speed

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

    @property
    def top_episode_share(self) -> float | None:
        """The largest share of the episodes that any bucket has; None without deaths."""
        return max((cluster.episode_share for cluster in self.clusters), default=None)


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
    records: Iterable[StepOneDeath], *, angle_bin: float = ANGLE_BIN, speed_bin: float = SPEED_BIN
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


def slug(stage_type: str) -> str:
    """Return a type as part of a tag: other than letters, digits, _ and - become _."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", stage_type)


def moving_average(counts: Sequence[float | None], *, decay: float = 0.5) -> list[float | None]:
    """Return the exponential moving average after each count; one that is missing changes none."""
    averages: list[float | None] = []
    average: float | None = None
    for count in counts:
        if count is not None:
            average = count if average is None else decay * average + (1 - decay) * count
        averages.append(average)
    return averages
