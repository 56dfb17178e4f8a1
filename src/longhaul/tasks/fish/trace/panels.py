"""Pictures of what the laboratory keeps of a run."""

from __future__ import annotations

from longhaul.core.panel import Panel
from longhaul.tasks.fish.trace.exports import STEP_ONE

_DEATHS = f"evaluations/{STEP_ONE}"

RECORD_PANELS = (
    Panel(
        "Predators of deaths in the first step",
        ("angle_deg", "speed"),
        kind="polar",
        name="step_one_heading_polar",
        records=_DEATHS,
        bins=tuple(float(edge) for edge in range(0, 361, 30)),
        note="headings weighted by speed, 0 degrees at east",
    ),
    Panel(
        "Deaths in the first step by type of tail stage",
        ("tail_stage_type",),
        kind="bars",
        name="step_one_stage_distribution",
        records=_DEATHS,
    ),
    Panel(
        "Bad starts left",
        (
            "starts/tail_remaining_ratio",
            "starts/tail_warning_threshold",
            "starts/tail_warning",
        ),
        kind="spans",
        name="tail_stage_warning",
        right=("starts/tail_warning_duration",),
        note="bars: iterations the warning has lasted",
    ),
)
