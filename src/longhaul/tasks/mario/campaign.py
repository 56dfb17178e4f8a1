"""The stages as courses of a campaign."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from longhaul.tasks.kind import Campaign, Course
from longhaul.tasks.mario.evaluation import CLEAR_RATE, REHEARSAL
from longhaul.tasks.mario.game.stages import ALL_STAGES, lottery

STRETCH = 64
"""Ends within so many pixels are counted as one obstacle."""


TWINS = {"5-3": "1-3", "5-4": "2-4", "6-4": "1-4", "7-2": "2-2", "7-3": "2-3"}
"""Stages that are earlier ones again, with more in the way."""
FAMILIES = (
    ("1-2", "4-2"),
    ("1-3", "3-3", "4-3", "5-3", "6-3"),
    ("1-4", "2-4", "3-4", "4-4", "5-4", "6-4", "7-4"),
    ("2-2", "7-2"),
    ("2-3", "7-3"),
)
"""Stages of a kind: underground, on islands, castles, in water, on bridges; the others are on
open ground, but for 8-4, whose way leads through castle, pipes and water."""
PIPE_STAGE = "8-4"
PIPE_BUTTONS = ("DOWN", "RIGHT", "RIGHT+A", "RIGHT+B", "RIGHT+A+B", "A", "LEFT")
"""Who does not go down the right pipes of 8-4 walks in circles. Elsewhere DOWN does what NOOP does,
in whose place it is: weights of other stages fit."""
MAZES = ("4-4", "7-4", "8-4")
MAZE_PATIENCE = 300
"""Decisions without new ground: whoever took a wrong way has four pages to walk again, which takes
a hundred, before it can be tried otherwise."""
COURSE_OVERRIDES = (
    "options.reward.death=-2.0",
    "options.reward.stagnation=-2.0",
    "options.stagnation_limit=90",
    "options.training_sticky=0.0",
    "options.rehearsal_episodes=48",
    "options.starts.frontier_share=0.3",
    "evaluate.every_iterations=20",
    "evaluate.greedy=false",
)
"""What suits stages nobody has cleared yet. Where deaths are dear and most attempts end in one, it
is best to stand and wait: with 2 instead of 5 a policy from 1-1 came 1.3 times as far in 1-2 within
650,000 steps. Games are no harder than those that are measured, more begin at the far end, and
evaluations are short and frequent, so that no stage is trained too long. Actions are drawn: the
most likely one often stands before a wall for ever so early."""


def _course(name: str) -> Course:
    twin = (TWINS[name],) if name in TWINS else ()
    family = next((own for own in FAMILIES if name in own), ())
    like = dict.fromkeys((*twin, *(other for other in family if other != name)))
    mazes = (f"options.stagnation_limit={MAZE_PATIENCE}",) if name in MAZES else ()
    pipes = (f"options.buttons={json.dumps(PIPE_BUTTONS)}",) if name == PIPE_STAGE else ()
    return Course(
        name,
        (f'options.stages=["{name}"]', *COURSE_OVERRIDES, *mazes, *pipes),
        tuple(like),
    )


def stage_courses(text: str) -> tuple[Course, ...]:
    """Return the stages of `all`, or of single ones and spans by commas: `1-1,1-3..2-2`."""
    if text.strip() == "all":
        stages = ALL_STAGES
    else:
        stages = lottery(tuple(part.strip() for part in text.split(","))).stages
    names = dict.fromkeys(str(stage) for stage in stages)
    return tuple(_course(name) for name in names)


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
    suite=REHEARSAL,
)
