"""What a step pays, read from the figures it left behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, StepBuffers
from longhaul.core.labor import Labor, Link, bind
from longhaul.core.native import fetch
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.tasks.mario.game.memory import game_stamp

(
    X,  # Mario's place in the area, in pixels
    Y,  # his line on the screen; negative above, beyond 255 below it
    AREA_SLOT,  # which of the areas below he is in
    PROGRESS,  # pixels of new ground in this episode, over all areas
    GAINED,  # of them in the last step
    SCORE,
    SCORE_GAINED,
    COIN_COUNT,
    COINS_GAINED,
    CLOCK,
    CLOCK_LOST,
    LIVES_LEFT,
    POWER_NOW,  # 0 small, 1 big, 2 fiery
    POWER_CHANGE,
    LOOPS,  # times a maze put Mario back
    LOOPED,  # 1 if the last step was such a time
    CLEARED,  # stages cleared in this episode
    CLEARED_NOW,
    DEATHS,
    DIED_NOW,
    ELAPSED,  # steps of this episode
    STUCK,  # steps since the last new ground
    FRAMES,  # frames of this episode, those skipped included
    REASON,  # why the episode is over, or 0
    BUSY,  # 1 while buttons do nothing and the episode goes on
    WORLD,  # the present stage
    STAGE,
    FIRST_WORLD,  # the stage the episode began in
    FIRST_STAGE,
    EXECUTED,  # the action really taken, -1 for buttons that are none of the set
    BYTE,  # the buttons really pressed
    SCRIPTED,  # 1 if this episode begins with the script
    STARTED_HARD,  # 1 if it began from a hard start
    BEST_X,  # farthest place in the present area
    NEW_AREA,  # 1 if the last step or the scene after it led into a new area, or far ahead in one
    ANSWERED,  # 1 if a maze's check was passed rightly in the last step, -1 if wrongly
    RIGHTS,  # such steps in the episode
    WRONGS,
    MAZE_WAS,  # the maze's counters before the last step: right, passed, whether a check is ahead
    PASSED_WAS,
    AHEAD_WAS,
    AREA_COUNT,
    AREAS,  # keys of the areas seen, MOST_AREAS of them, then the farthest place in each
) = range(43)

MOST_AREAS = 12
"""Areas kept apart in an episode; beyond them the oldest one is forgotten."""
BESTS = AREAS + MOST_AREAS
FIGURES = BESTS + MOST_AREAS
"""Numbers in a row."""

REASONS = (
    "",
    "flag",
    "axe",
    "enemy",
    "pit",
    "time_up",
    "game_over",
    "warp",
    "stagnation",
    "timeout",
    "scene",
)
"""Why episodes end, by their code: 0 is not at all."""
(
    GOES_ON,
    FLAG,
    AXE,
    ENEMY,
    PIT,
    TIME_UP,
    OVER,
    WARP,
    STAGNATION,
    TIMEOUT,
    SCENE,
) = range(11)
FIRST_TRUNCATION = STAGNATION
"""From here on the episode was cut; before, it ended."""
DEATH_REASONS = ("enemy", "pit", "time_up", "game_over")
CLEAR_REASONS = ("flag", "axe")


class Reward(Protocol):
    """Pays for the steps of a batch of games."""

    def bind(self, figures: Array, slots: StepBuffers) -> None:
        """Read these figures, [N, FIGURES], and write into these slots' reward and terms."""

    def configure(self, settings: Settings) -> None:
        """Take settings into account from each game's next `begin` on."""

    def begin(self, envs: NDArray[np.int64]) -> None:
        """Episodes begin in these games; their figures are those of the start."""

    def bound(self) -> Link:
        """Return the paying of one game's last step as a link of native work.

        It writes reward and terms, which add up to it, of the arrays bound last.
        """

    def snapshot(self) -> State:
        """Return what is kept between steps."""

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""


class RewardSource(Protocol):
    """Makes the reward of a batch; picklable."""

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the terms, which add up to the reward."""

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of what is measured of a step beside them."""

    def __call__(self, count: int) -> Reward:
        """Return the reward of `count` games."""


class RewardWeights(NamedTuple):
    """What the plain reward pays for."""

    progress: float  # per pixel of new ground
    clear: float
    death: float
    clock: float  # per tick of the clock


class Terms(NamedTuple):
    """Where it writes, one row per game."""

    reward: Array
    progress: Array
    clear: Array
    death: Array
    clock: Array


@dataclass(frozen=True, slots=True)
class PlainReward:
    """New ground, clearing the stage, dying, and time passing; the same for every stage."""

    terms: ClassVar = ("progress", "clear", "death", "clock")
    measures: ClassVar = ()

    progress: float = 0.01
    clear: float = 5.0
    death: float = -1.0
    clock: float = -0.01

    def __call__(self, count: int) -> PlainPay:
        """Return the reward of `count` games."""
        return PlainPay(self)


class Paying(NamedTuple):
    """What paying plainly takes."""

    figures: Array  # [N, FIGURES] int32
    terms: Terms
    weights: RewardWeights


def _build(stamp: int) -> Labor:
    def pay_plainly(pointer: Any, index: int, member: int) -> int:
        """Write the plain reward of a game."""
        _ = stamp
        paying = fetch(pointer)
        own, terms, weights = paying.figures[index], paying.terms, paying.weights
        terms.progress[index] = weights.progress * own[GAINED]
        terms.clear[index] = weights.clear * own[CLEARED_NOW]
        died = own[DIED_NOW] != 0 or own[REASON] == OVER
        terms.death[index] = weights.death if died else 0.0
        terms.clock[index] = weights.clock * own[CLOCK_LOST]
        terms.reward[index] = (
            terms.progress[index] + terms.clear[index] + terms.death[index] + terms.clock[index]
        )
        return 0

    return pay_plainly


pay_plainly = _build(game_stamp())


class PlainPay:
    """Pays the plain reward; nothing is kept between steps."""

    def __init__(self, source: PlainReward) -> None:
        self._weights = RewardWeights(
            float(source.progress), float(source.clear), float(source.death), float(source.clock)
        )
        self._figures: Array
        self._terms: Terms

    def bind(self, figures: Array, slots: StepBuffers) -> None:
        """Read these figures and write into these slots."""
        self._figures = figures
        terms = slots.terms
        self._terms = Terms(
            slots.reward, terms["progress"], terms["clear"], terms["death"], terms["clock"]
        )

    def configure(self, settings: Settings) -> None:
        """Nothing here can be set."""

    def begin(self, envs: NDArray[np.int64]) -> None:
        """Nothing is kept of an episode."""

    def bound(self) -> Link:
        """Return the paying of one game's last step."""
        return bind(pay_plainly, Paying(self._figures, self._terms, self._weights))

    def snapshot(self) -> State:
        """Return nothing."""
        return {}

    def restore(self, state: State) -> None:
        """Nothing is kept."""
