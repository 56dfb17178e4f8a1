"""Deaths in the first step by the type of the tail stage their evaluation fell into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longhaul.tasks.fish.step_one.block import block
from longhaul.tasks.fish.step_one.clusters import NORTH_TO_NORTH_WEST, Sector, cluster
from longhaul.tasks.fish.step_one.records import StepOneDeath
from longhaul.tasks.fish.tail.items import speed


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One evaluation: when, during which type of stage, how many fish, and who died at once."""

    iteration: int
    stage_type: str
    fish: int
    deaths: tuple[StepOneDeath, ...]


def stage_summary(
    evaluations: Sequence[Evaluated], *, sector: Sector = NORTH_TO_NORTH_WEST
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
    evaluations: Sequence[Evaluated], *, run_name: str, generated_at: str
) -> dict[str, Any]:
    """Return the content of `step_one_stage_summary.json`."""
    return {
        "generated_at": generated_at,
        "run_name": run_name,
        "records": sum(len(evaluated.deaths) for evaluated in evaluations),
        "stage_summary": stage_summary(evaluations),
    }


def _stage(
    stage_type: str, evaluations: Sequence[Evaluated], *, total: int, sector: Sector
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
