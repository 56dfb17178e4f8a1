"""How a campaign spends its time: which course is trained next, decided from what was measured."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from longhaul.tasks.mario.evaluation import CLEAR_RATE, FINAL, REHEARSAL
from longhaul.tasks.mario.game.stages import ALL_STAGES, lottery

PIXELS_PER_CLEAR = 3000.0
"""Progress counts beside clear rates as if so much of it were worth a clear."""
OPTIMISM = 0.3
"""What a first slice is hoped to bring; less for every slice that was spent."""
PATIENCE = 3
"""Slices in a row without any gain after which a course waits for the others."""
SMALLEST_GAIN = 0.01
SHORTEST_SLICE, LONGEST_SLICE = 60.0, 240.0
"""Seconds: less is lost to starting runs, more is lost on courses that bring nothing."""


def slice_of(budget_seconds: float, courses: int, *, jobs: int) -> float:
    """Return the training time of a course per turn: trying all takes half the budget."""
    share = budget_seconds * jobs / (2 * max(courses, 1))
    return min(max(share, SHORTEST_SLICE), LONGEST_SLICE)


@dataclass(frozen=True, slots=True)
class CourseState:
    """How far a course has come."""

    name: str
    run: str = ""
    """The run's directory; empty before the first slice."""
    seconds: float = 0.0
    rate: float = 0.0
    """The best clear rate of an evaluation from the true start."""
    progress: float = 0.0
    """The best mean progress of an evaluation."""
    farthest: float = 0.0
    env_steps: int = 0
    worths: tuple[float, ...] = ()
    """What the course was worth after each slice."""
    blocked: str = ""
    film: str = ""
    problem: str = ""
    """Why a slice failed, in the words of the run."""
    teacher: str = ""
    """The run whose weights it began with; empty: none."""
    searched: bool = False
    """Whether its way was searched for."""
    demo: str = ""
    """The demonstration it is trained along; empty: none."""
    is_over: bool = False
    """Whether its run has used up its steps."""
    solved_back: float = 0.0
    """How much of its demonstration's path is solved, from the goal back."""
    final: tuple[float, ...] = ()
    """Clear rate of the final evaluation, and the ends of its interval; empty: none yet."""
    final_steps: int = 0
    """How far the course was trained when that was measured."""

    @property
    def worth(self) -> float:
        """What the course has brought so far."""
        return self.rate + self.solved_back + min(self.progress / PIXELS_PER_CLEAR, 1.0)

    @property
    def idle(self) -> int:
        """Slices in a row that brought nothing."""
        count = 0
        for before, after in zip((0.0, *self.worths), self.worths, strict=False):
            count = 0 if after - before > SMALLEST_GAIN else count + 1
        return count

    def promise(self) -> float:
        """Return what the next slice may be hoped to bring."""
        before = self.worths[-2] if len(self.worths) > 1 else 0.0
        last = max(self.worth - before, 0.0) if self.worths else 0.0
        return 0.5 * last + OPTIMISM / (1 + len(self.worths) + 2 * self.idle)


def next_course(
    states: tuple[CourseState, ...], *, target: float, busy: Collection[str] = ()
) -> str | None:
    """Return the course the next slice goes to, None if there is nothing left to do.

    Those that are `busy` are being trained already.

    Every course is tried once, in order. After that the one that promises most is next; one that
    has stopped moving waits until all others have.
    """
    able = [s for s in states if not s.problem and not s.is_over and s.name not in busy]
    for state in able:
        if not state.worths:
            return state.name
    open_ = [state for state in able if state.rate < target]
    if not open_:
        return None
    moving = [state for state in open_ if state.idle < PATIENCE]
    return max(moving or open_, key=lambda state: (state.promise(), -len(state.worths))).name


def next_final(
    states: tuple[CourseState, ...], *, target: float, busy: Collection[str] = (), is_end: bool
) -> str | None:
    """Return the course whose final evaluation is due, None if none is.

    It is due when the course is left; at the end, for every one that was ever cleared.
    """
    least = 0.0 if is_end else target
    due = (
        state.name
        for state in states
        if 0 < state.rate >= least
        and state.final_steps < state.env_steps
        and state.name not in busy
    )
    return next(due, None)


def teacher_of(
    states: tuple[CourseState, ...], *, like: tuple[str, ...] = (), otherwise: str = ""
) -> str:
    """Return the run that a course not begun yet learns from.

    It is the first of the courses it is `like` that was cleared at all, then the one that is
    cleared most often.
    """
    able = {state.name: state for state in states if state.rate > 0 and state.run}
    for name in like:
        if name in able:
            return able[name].run
    return max(able.values(), key=lambda state: state.rate).run if able else otherwise


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
"""Decisions without new ground: after a wrong way there are four pages to walk again, which takes
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
"""What suits stages that were never cleared. Where deaths are dear and most attempts end in one, it
is best to stand and wait: with 2 instead of 5 a policy from 1-1 came 1.3 times as far in 1-2 within
650,000 steps. Games are no harder than those that are measured, more begin at the far end, and
evaluations are short and frequent: no stage is trained too long. Actions are drawn: the
most likely one often stands before a wall for ever so early."""


@dataclass(frozen=True, slots=True)
class CampaignCourse:
    """A part of a task that can be trained by itself."""

    name: str
    overrides: tuple[str, ...]
    """What makes a run train on it, as `--set` takes it."""
    place: tuple[str, ...] = ()
    """Those of them that say where it is; a preset for paths says the rest."""
    like: tuple[str, ...] = ()
    """Names of courses whose weights are worth beginning with, the most alike first."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """How a task is trained course by course, and by which metrics that is judged."""

    courses: Callable[[str], tuple[CampaignCourse, ...]]
    """Return the courses a user lists; `all` means every one."""
    rate: str
    """The metric with the share of evaluated episodes that succeed."""
    progress: str
    """The metric that grows before the first success."""
    farthest: str
    """The metric with the best episode's progress."""
    blocked: Callable[[Mapping[str, Any]], str]
    """Return what stops the episodes of an evaluation, from its row in the run's events."""
    suite: str = ""
    """The suite on which the rate is measured while training; films show its episodes."""
    final: str = ""
    """The suite of episodes that choose nothing; empty: there is none."""
    earliest: str = ""
    """The metric with the place of the earliest state of a path that is solved, 0 its start."""


def _course(name: str) -> CampaignCourse:
    twin = (TWINS[name],) if name in TWINS else ()
    family = next((own for own in FAMILIES if name in own), ())
    like = dict.fromkeys((*twin, *(other for other in family if other != name)))
    mazes = (f"options.stagnation_limit={MAZE_PATIENCE}",) if name in MAZES else ()
    pipes = (f"options.buttons={json.dumps(PIPE_BUTTONS)}",) if name == PIPE_STAGE else ()
    place = (f'options.stages=["{name}"]',)
    overrides = (*place, *COURSE_OVERRIDES, *mazes, *pipes)
    return CampaignCourse(name, overrides, place, tuple(like))


def stage_courses(text: str) -> tuple[CampaignCourse, ...]:
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
    final=FINAL,
    earliest="path/earliest",
)
