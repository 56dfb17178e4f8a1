"""The shaped reward: five terms, each of which has a weight and a range.

reward = 0.3 progress + 0.3 safety + 0.2 efficiency + 0.1 feasibility + 0.1 exploration
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longhaul.tasks.nethack.observation.arrays import DEPTH, HP

TERMS = ("progress", "safety", "efficiency", "feasibility", "exploration")
WEIGHTS = (0.3, 0.3, 0.2, 0.1, 0.1)
DEATH = -1000.0
LARGE_LOSS = -30
"""Change of hit points in one decision, below which it costs twice as much."""


@dataclass(frozen=True, slots=True)
class Happened:
    """What one decision of the player brought."""

    paid: float
    """The change of the score, less the penalty of a clock that stands still."""
    levels: int
    """By how much the depth changed."""
    hit_points: int
    """By how much they changed."""
    died: bool
    steps: int
    """Of the game so far."""
    broke_a_rule: bool
    """Whether no rule speaks for what was chosen."""
    saw_something_new: bool
    """Whether a condition of the rules holds for the first time in this game."""


def shaped_terms(happened: Happened) -> tuple[float, ...]:
    """Return the weighted terms, which add up to the reward."""
    safety = DEATH
    if not happened.died:
        safety = -0.1 * (1.0 - max(0.0, happened.hit_points / 100.0))
        safety -= 0.1 * (happened.hit_points < LARGE_LOSS)
    new = happened.saw_something_new and not happened.died
    parts = (
        _within(0.1 * happened.levels + happened.paid / 1000.0, -1.0, 1.0),
        _within(safety, DEATH, 0.1),
        _within(-happened.steps / 1000.0, -0.1, 0.1),
        _within(0.05 - 0.2 * happened.broke_a_rule, -0.3, 0.05),
        0.15 * new,
    )
    return tuple(weight * part for weight, part in zip(WEIGHTS, parts, strict=True))


def _within(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


class ShapedReward:
    """Watches a game for what the shaped reward pays for."""

    def __init__(self) -> None:
        self._held: NDArray[np.bool_]
        """Which conditions have held in this game."""
        self._before = (0, 0, False)
        """Hit points, depth and whether a rule was broken, of the present decision."""

    def begin(self, atoms: NDArray[Any]) -> None:
        """Begin a game in which these conditions hold."""
        self._held = atoms != 0

    def expect(self, status: NDArray[Any], *, is_allowed: bool) -> None:
        """Note what the hero had before a decision, and whether the rules speak for it."""
        self._before = (int(status[HP]), int(status[DEPTH]), not is_allowed)

    def terms(
        self,
        status: NDArray[Any],
        atoms: NDArray[Any],
        *,
        paid: float,
        steps: int,
        ended_by: str,
    ) -> tuple[float, ...]:
        """Return the terms of the decision; of a game that is over, the status shows nothing."""
        hit_points, depth, broke_a_rule = self._before
        holds = atoms != 0
        is_new = bool((holds & ~self._held).any())
        self._held |= holds
        return shaped_terms(
            Happened(
                paid=paid,
                levels=0 if ended_by else int(status[DEPTH]) - depth,
                hit_points=0 if ended_by else int(status[HP]) - hit_points,
                died=ended_by == "death",
                steps=steps,
                broke_a_rule=broke_a_rule,
                saw_something_new=is_new,
            )
        )
