"""Deaths in the first step by the predator's heading and speed, and by the type of tail stage."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from longhaul.core.env import Episode
from longhaul.core.metrics import Metric, Metrics
from longhaul.envs.starts import listed
from longhaul.tasks.fish.lab.pre_roll import block
from longhaul.tasks.fish.lab.records import FirstStepDeath, FirstSteps
from longhaul.tasks.fish.world.school import FIRST_STEP_PLACES
from longhaul.tasks.fish.world.starts import FishStart, heading, speed

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


LARGEST = 6

StartOf = Callable[[FirstStepDeath], FishStart | None]
"""Returns the whole start of a record's episode, or None if it is not known any more."""


def worst_seeds(
    records: Sequence[FirstStepDeath], start_of: StartOf, *, run_name: str, generated_at: str
) -> dict[str, Any]:
    """Return the content of a worst-seeds file; it can be used as a tail file as it is."""
    found = cluster(records)
    return {
        "generated_at": generated_at,
        "run_name": run_name,
        "records": len(records),
        "summary": {
            "total_events": found.total,
            "angle_bin_deg": found.angle_bin_deg,
            "speed_bin": found.speed_bin,
            "clusters": [
                {**asdict(one), "sample": _sample(_worst(records, one.angle_deg_start,
                                                         one.speed_bin_start), start_of)}
                for one in found.clusters[:LARGEST]
            ],
        },
    }  # fmt: skip


def _worst(records: Sequence[FirstStepDeath], angle: float, pace: float) -> FirstStepDeath:
    """Return the first death of the bucket's deadliest episode."""
    wanted = (round(angle / ANGLE_BIN), round(pace / SPEED_BIN))
    own = [r for r in records if bucket(r.predator_velocity, ANGLE_BIN, SPEED_BIN) == wanted]
    deaths = Counter((record.iteration, record.seed) for record in own)
    return max(own, key=lambda record: deaths[record.iteration, record.seed])


def _sample(record: FirstStepDeath, start_of: StartOf) -> dict[str, Any]:
    start = start_of(record)
    sample: dict[str, Any] = {
        "iteration": record.iteration,
        "angle_deg": heading(record.predator_velocity),
        "speed": speed(record.predator_velocity),
        "predator_velocity": list(record.predator_velocity),
        "fish_idx": record.fish_idx,
        "seed": record.seed,
        "avoidable": record.avoidable,
        "tail_stage_label": record.tail_stage_label,
        "tail_stage_type": record.tail_stage_type,
    }
    if start is not None:
        sample["start"] = listed(start.as_value())
        sample["start_velocity"] = list(record.predator_start_velocity)
    assert math.isfinite(sample["speed"])
    return sample


RECORD = "step_one_deaths"
"""The part of an evaluation's event that holds the records."""
_LEFT_OUT = ("iteration", "tail_stage_label", "tail_stage_type")

METRICS = (
    Metric("eval/step_one_top_share", "share of the largest bucket of headings and speeds"),
    Metric("eval/step_one_sector_share", "share of fast predators that head for 90 to 150 degrees"),
    Metric("eval/step_one_ne_high_speed_share", "the same under its old name"),
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
    """Return the records of an evaluation for the run's events, which tell the iteration."""
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


@dataclass(frozen=True, slots=True)
class StageEvaluation:
    """One evaluation: when, during which type of stage, how many fish, and who died at once."""

    iteration: int
    stage_type: str
    fish: int
    deaths: tuple[FirstStepDeath, ...]


def stage_summary(
    evaluations: Sequence[StageEvaluation], *, sector: Sector = NORTH_TO_NORTH_WEST
) -> dict[str, Any]:
    """Return the deaths of all evaluations, type by type.

    Shares of deaths only mirror how many evaluations fell into a type; deaths per thousand
    evaluated fish can be compared.
    """
    total = sum(len(evaluated.deaths) for evaluated in evaluations)
    types = dict.fromkeys(evaluated.stage_type for evaluated in evaluations)
    return {
        "total_events": total,
        "evaluated_fish": sum(evaluated.fish for evaluated in evaluations),
        "stages": [
            _stage(
                stage_type,
                [one for one in evaluations if one.stage_type == stage_type],
                total=total,
                sector=sector,
            )
            for stage_type in types
        ],
    }


def stage_summary_file(
    evaluations: Sequence[StageEvaluation], *, run_name: str, generated_at: str
) -> dict[str, Any]:
    """Return the content of `step_one_stage_summary.json`."""
    return {
        "generated_at": generated_at,
        "run_name": run_name,
        "records": sum(len(evaluated.deaths) for evaluated in evaluations),
        "stage_summary": stage_summary(evaluations),
    }


def _stage(
    stage_type: str, evaluations: Sequence[StageEvaluation], *, total: int, sector: Sector
) -> dict[str, Any]:
    deaths = [death for evaluated in evaluations for death in evaluated.deaths]
    fish = sum(evaluated.fish for evaluated in evaluations)
    clusters = {evaluated.iteration: cluster(evaluated.deaths) for evaluated in evaluations}
    tops = {iteration: found.top_share for iteration, found in clusters.items()}
    sectors = {iteration: sector.share(found) for iteration, found in clusters.items()}
    return {
        "stage_type": stage_type,
        "count": len(deaths),
        "share": len(deaths) / total if total else None,
        "evaluations": len(evaluations),
        "evaluated_fish": fish,
        "per_1000_fish": 1000 * len(deaths) / fish if fish else None,
        "avoidable": sum(death.avoidable for death in deaths),
        "iteration_min": min(evaluated.iteration for evaluated in evaluations),
        "iteration_max": max(evaluated.iteration for evaluated in evaluations),
        "predator_speed": block([speed(death.predator_velocity) for death in deaths]),
        "top_share": _over_run(tops),
        "sector_share": _over_run(sectors),
        "ne_high_speed_share": _over_run(sectors),
    }


def _over_run(shares: Mapping[int, float | None]) -> dict[str, float | None]:
    """Return the mean and the largest of the shares, and when it was met first."""
    known = {iteration: share for iteration, share in shares.items() if share is not None}
    if not known:
        return {"mean": None, "max": None, "iteration_of_max": None}
    largest = max(known.values())
    return {
        "mean": sum(known.values()) / len(known),
        "max": largest,
        "iteration_of_max": _first(known.items(), largest),
    }


def _first(pairs: Iterable[tuple[int, float]], value: float) -> int:
    return min(iteration for iteration, share in pairs if share == value)
