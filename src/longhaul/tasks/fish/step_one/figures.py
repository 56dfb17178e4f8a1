"""What every evaluation tells about deaths in the first step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from longhaul.core.env import Episode
from longhaul.core.metrics import Metric, Metrics
from longhaul.tasks.fish.school import STEP_ONE_PLACES
from longhaul.tasks.fish.step_one.clusters import NORTH_TO_NORTH_WEST, cluster
from longhaul.tasks.fish.step_one.records import FirstSteps

RECORD = "step_one_deaths"
"""The part of an evaluation's event that holds the records."""
_LEFT_OUT = ("iteration", "tail_stage_label", "tail_stage_type")

METRICS = (
    Metric("eval/step_one_top_share", "share of the largest bucket of headings and speeds"),
    Metric("eval/step_one_sector_share", "share of fast predators that head for 90 to 150 degrees"),
    Metric("eval/step_one_ne_high_speed_share", "the same under its old name"),
    Metric("eval/step_one_episodes", "episodes with a death in the first step"),
)


def step_one_figures(steps: FirstSteps, episodes: Sequence[Episode]) -> Metrics:
    """Return the shares of an evaluation; none without deaths or where no places were kept."""
    if any(STEP_ONE_PLACES not in episode.facts for episode in episodes):
        return {}
    found = cluster(steps.deaths(episodes))
    metrics = {"eval/step_one_episodes": float(found.episodes)}
    top, sector = found.top_share, NORTH_TO_NORTH_WEST.share(found)
    if top is not None and sector is not None:
        metrics["eval/step_one_top_share"] = top
        metrics["eval/step_one_sector_share"] = sector
        metrics["eval/step_one_ne_high_speed_share"] = sector
    return metrics


def step_one_row(steps: FirstSteps, episodes: Sequence[Episode]) -> dict[str, Any]:
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
