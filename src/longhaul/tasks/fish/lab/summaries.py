"""Summaries of the deaths in the first step: worst seeds, and counts by type of tail stage."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from longhaul.envs.starts import listed
from longhaul.tasks.fish.evaluation.first_step import (
    ANGLE_BIN,
    NORTH_TO_NORTH_WEST,
    SPEED_BIN,
    FirstStepDeath,
    bucket,
    cluster,
)
from longhaul.tasks.fish.lab.pre_roll import block
from longhaul.tasks.fish.world.starts import FishStart, heading, speed

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


@dataclass(frozen=True, slots=True)
class StageEvaluation:
    """One evaluation: when, during which type of stage, how many fish, and who died at once."""

    iteration: int
    stage_type: str
    fish: int
    deaths: tuple[FirstStepDeath, ...]


def stage_summary(
    evaluations: Sequence[StageEvaluation], *, run_name: str, generated_at: str
) -> dict[str, Any]:
    """Return the content of `step_one_stage_summary.json`: the deaths, type by type.

    Shares of deaths only mirror how many evaluations fell into a type; deaths per thousand
    evaluated fish can be compared.
    """
    total = sum(len(evaluated.deaths) for evaluated in evaluations)
    by_type: dict[str, list[StageEvaluation]] = {}
    for evaluated in evaluations:
        by_type.setdefault(evaluated.stage_type, []).append(evaluated)
    return {
        "generated_at": generated_at,
        "run_name": run_name,
        "records": total,
        "stage_summary": {
            "total_events": total,
            "evaluated_fish": sum(evaluated.fish for evaluated in evaluations),
            "stages": [_stage(name, own, total=total) for name, own in by_type.items()],
        },
    }


def _stage(
    stage_type: str, evaluations: Sequence[StageEvaluation], *, total: int
) -> dict[str, Any]:
    deaths = [death for evaluated in evaluations for death in evaluated.deaths]
    fish = sum(evaluated.fish for evaluated in evaluations)
    clusters = {evaluated.iteration: cluster(evaluated.deaths) for evaluated in evaluations}
    tops = {iteration: found.top_share for iteration, found in clusters.items()}
    sectors = {iteration: NORTH_TO_NORTH_WEST.share(found) for iteration, found in clusters.items()}
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
        "iteration_of_max": min(at for at, share in known.items() if share == largest),
    }
