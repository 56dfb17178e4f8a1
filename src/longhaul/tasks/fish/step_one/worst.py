"""The worst-seeds file: the largest clusters of deaths, each with a start to train on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from longhaul.envs.starts import listed
from longhaul.tasks.fish.starts import FishStart
from longhaul.tasks.fish.step_one.clusters import ANGLE_BIN, SPEED_BIN, bucket, cluster
from longhaul.tasks.fish.step_one.records import StepOneDeath
from longhaul.tasks.fish.tail.items import heading, speed

LARGEST = 6

StartOf = Callable[[StepOneDeath], FishStart | None]
"""Returns the whole start of a record's episode, or None if it is not known any more."""


def worst_seeds(
    records: Sequence[StepOneDeath], start_of: StartOf, *, run_name: str, generated_at: str
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


def _worst(records: Sequence[StepOneDeath], angle: float, pace: float) -> StepOneDeath:
    """Return the first death of the bucket's deadliest episode."""
    wanted = (round(angle / ANGLE_BIN), round(pace / SPEED_BIN))
    own = [r for r in records if bucket(r.predator_velocity, ANGLE_BIN, SPEED_BIN) == wanted]
    deaths = Counter((record.iteration, record.seed) for record in own)
    return max(own, key=lambda record: deaths[record.iteration, record.seed])


def _sample(record: StepOneDeath, start_of: StartOf) -> dict[str, Any]:
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
