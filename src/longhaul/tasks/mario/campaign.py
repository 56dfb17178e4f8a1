"""The stages as courses of a campaign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from longhaul.tasks.kind import Campaign, Course
from longhaul.tasks.mario.evaluation import CLEAR_RATE
from longhaul.tasks.mario.game.stages import ALL_STAGES, lottery

STRETCH = 64
"""Ends within so many pixels are counted as one obstacle."""


def stage_courses(text: str) -> tuple[Course, ...]:
    """Return the stages of `all`, or of single ones and spans by commas: `1-1,1-3..2-2`."""
    if text.strip() == "all":
        stages = ALL_STAGES
    else:
        stages = lottery(tuple(part.strip() for part in text.split(","))).stages
    names = dict.fromkeys(str(stage) for stage in stages)
    return tuple(Course(name, (f'options.stages=["{name}"]',)) for name in names)


def obstacle(row: Mapping[str, Any]) -> str:
    """Return what ended most of an evaluation's episodes, and where."""
    ends = [end for stage in row.get("stages", ()) for end in stage["ends"]]
    if not ends:
        return ""
    found = Counter((end["reason"], end["x"] // STRETCH) for end in ends)
    (reason, stretch), count = found.most_common(1)[0]
    episodes = sum(stage["episodes"] for stage in row["stages"])
    return f"{reason} near x {stretch * STRETCH + STRETCH // 2} ({count} of {episodes})"


CAMPAIGN = Campaign(
    courses=stage_courses,
    rate=CLEAR_RATE,
    progress="eval/mean_progress",
    farthest="eval/max_x",
    blocked=obstacle,
)
