"""How a campaign spends its time: which course is trained next, decided from what was measured."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

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
    """Return how long a course is trained at a time, so that trying all takes half the budget."""
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
    is_over: bool = False
    """Whether its run has used up its steps."""

    @property
    def worth(self) -> float:
        """What the course has brought so far."""
        return self.rate + min(self.progress / PIXELS_PER_CLEAR, 1.0)

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
