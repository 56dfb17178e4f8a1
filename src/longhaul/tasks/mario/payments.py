"""Paying the terms, natively and for each game with the weights its episode began with."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longhaul.core.config import AT_LEAST_0, AT_LEAST_1, check_ranges
from longhaul.core.env import Array, StepBuffers
from longhaul.core.errors import ConfigError
from longhaul.core.labor import Labor, Link, bind
from longhaul.core.native import fetch, integer, kernel
from longhaul.core.settings import Setting, Settings
from longhaul.core.state import State
from longhaul.tasks.mario.game import reward as at
from longhaul.tasks.mario.game.memory import game_stamp

PREFIX = "reward."

MEANINGS = {
    "progress": "Paid per pixel of new ground in the episode",
    "forward": "Paid per pixel to the right, also where Mario has been before",
    "early": "Paid per pixel of new ground on top, for the beginning of a run",
    "score": "Paid per point of the game's score",
    "coins": "Paid per coin",
    "power": "Paid per step up in power, lost per step down",
    "time": "Paid per tick of the game's clock, about six decisions",
    "death": "Paid at death, also when time is up",
    "flag": "Paid for clearing a stage",
    "milestone": "Paid for every so many pixels of new ground",
    "milestone_floor": "Pixels of new ground up to which milestones pay nothing any more",
    "stagnation": "Paid when an episode is cut for want of new ground",
    "maze": "Paid for a maze's check that is passed rightly, lost for one that is not",
    "area": "Paid when a pipe or a vine leads to an area, or a part of one, for the first time",
    "loop": "Share of the ground a maze takes back by putting Mario back",
    "scale": "Multiplies all terms but those of an episode's end",
}
"""The settings, in the order in which the native code keeps them."""
TERMS = (
    "progress",
    "forward",
    "early",
    "score",
    "coins",
    "power",
    "time",
    "death",
    "flag",
    "milestone",
    "stagnation",
    "loop",
    "maze",
    "area",
)
"""What the reward is made of; each is reported by this name and all add up to the reward."""
GROUND, IDLE, RAW, PLACE = "ground", "idle", "raw", "x"
MEASURES = (GROUND, IDLE, RAW, PLACE)
"""What is measured of a step beside its reward: pixels of new ground, steps since the last new
ground, what was paid before the scale and the payments of an end, and where Mario is."""
NOT_NEGATIVE = ("progress", "forward", "early", "milestone_floor", "loop", "scale")


@dataclass(frozen=True, slots=True)
class RewardOptions:
    """What a step pays. Each weight is the first value of the setting `reward.<name>`."""

    progress: float = 0.01
    """Paid per pixel of new ground: farther than ever in this episode, and walked to."""
    forward: float = 0.0
    """Paid per pixel to the right, also where Mario has been before."""
    early: float = 0.0
    """Paid per pixel of new ground on top, while `early_iterations` last."""
    early_iterations: int = 0
    """Iterations with the early payment; 0: as long as nothing else changes the setting."""
    score: float = 0.0
    """Paid per point of the game's score."""
    coins: float = 0.0
    """Paid per coin."""
    power: float = 0.0
    """Paid per step up in power, lost per step down."""
    time: float = -0.01
    """Paid per tick of the game's clock, about six decisions."""
    death: float = -2.0
    """Paid at death, also when time is up."""
    flag: float = 5.0
    """Paid for clearing a stage."""
    milestone: float = 0.0
    """Paid for every `milestone_every` pixels of new ground."""
    milestone_every: int = 300
    """Pixels between two milestones."""
    milestones_once: bool = False
    """Whether a milestone pays only until the run has reached it, instead of in every episode."""
    stagnation: float = 0.0
    """Paid when an episode is cut for want of new ground."""
    maze: float = 0.0
    """Paid when a check of a maze is passed rightly, by the game's own counters, and lost when it
    is passed wrongly; in 7-4 three right ones in a row go on."""
    area: float = 0.0
    """Paid when a pipe or a vine leads into an area for the first time in an episode, or a page or
    more ahead of all ground in an area, as the pipes of 8-4 do."""
    loop: float = 1.0
    """Share of the ground that a maze takes back by putting Mario back; walking it again then
    pays again. 0 pays every pixel once, whichever way is taken."""
    scale: float = 1.0
    """Multiplies all terms but those of an episode's end: death, flag and stagnation."""

    def __post_init__(self) -> None:
        for name in MEANINGS:
            value = self.first_value(name)
            if not math.isfinite(value):
                raise ConfigError(f"options.reward.{name} = {value} must be a finite number")
            if name in NOT_NEGATIVE and value < 0:
                raise ConfigError(f"options.reward.{name} = {value} must be 0 or more")
        ranges = {AT_LEAST_1: "milestone_every", AT_LEAST_0: "early_iterations"}
        check_ranges(self, "options.reward", ranges)

    def first_value(self, name: str) -> float:
        """Return what the setting of this name begins with."""
        return float(asdict(self).get(name, 0.0))

    def settings(self) -> tuple[Setting[Any], ...]:
        """Return one setting per weight."""
        return tuple(
            Setting(
                PREFIX + name,
                self.first_value(name),
                meaning,
                low=0.0 if name in NOT_NEGATIVE else None,
            )
            for name, meaning in MEANINGS.items()
        )


(
    W_PROGRESS, W_FORWARD, W_EARLY, W_SCORE, W_COINS, W_POWER, W_TIME, W_DEATH, W_FLAG,
    W_MILESTONE, W_FLOOR, W_STAGNATION, W_MAZE, W_AREA, W_LOOP, W_SCALE,
) = range(16)  # fmt: skip
(
    T_PROGRESS, T_FORWARD, T_EARLY, T_SCORE, T_COINS, T_POWER, T_TIME, T_DEATH, T_FLAG,
    T_MILESTONE, T_STAGNATION, T_LOOP, T_MAZE, T_AREA,
) = range(14)  # fmt: skip
LAST_X, LAST_AREA, OWED = range(3)
"""Of what is kept between steps; owed are pixels a maze took back that may be walked again."""
FASTEST_STEP = 64
"""Beyond this many pixels in a step Mario did not walk."""


class Books(NamedTuple):
    """What the native code reads and writes, one row per game."""

    figures: Array  # [N, FIGURES] int32
    weights: Array  # [N, weights] float64
    kept: Array  # [N, 3] int32
    paid: Array  # [N, terms] float64
    terms: tuple[Array, ...]  # of each term [N] float32
    ground: Array  # [N] float32, as the three below
    idle: Array
    raw: Array
    place: Array
    reward: Array  # [N] float32
    milestone_every: int


@kernel
def _ground(own: Array, kept: Array, weights: Array, paid: Array) -> None:
    """Pay for ground: new, walked again, regained and taken back."""
    x, gained = integer(own[at.X]), integer(own[at.GAINED])
    area = integer(own[at.AREA_SLOT])
    same_area = area == kept[LAST_AREA]
    walked = x - kept[LAST_X] if same_area else 0
    if not same_area:
        kept[OWED] = 0
    if weights[W_LOOP] > 0.0:
        if own[at.LOOPED]:
            owed = max(integer(own[at.BEST_X]) - x, kept[OWED])
            paid[T_LOOP] = -weights[W_LOOP] * weights[W_PROGRESS] * (owed - kept[OWED])
            kept[OWED] = owed
        elif kept[OWED] > 0:
            before = integer(own[at.BEST_X]) - gained
            regained = max(min(x, before) - (before - kept[OWED]), 0)
            kept[OWED] -= regained
            paid[T_LOOP] = weights[W_LOOP] * weights[W_PROGRESS] * regained
    paid[T_PROGRESS] = weights[W_PROGRESS] * gained
    paid[T_EARLY] = weights[W_EARLY] * gained
    if 0 < walked <= FASTEST_STEP:
        paid[T_FORWARD] = weights[W_FORWARD] * walked
    kept[LAST_X], kept[LAST_AREA] = x, area


@kernel
def _pay_one(own: Array, weights: Array, every: int, paid: Array) -> float:
    """Write the terms but those of ground; return all of them before the scale and the end."""
    paid[T_SCORE] = weights[W_SCORE] * own[at.SCORE_GAINED]
    paid[T_COINS] = weights[W_COINS] * own[at.COINS_GAINED]
    paid[T_POWER] = weights[W_POWER] * own[at.POWER_CHANGE]
    paid[T_TIME] = weights[W_TIME] * own[at.CLOCK_LOST]
    paid[T_MAZE] = weights[W_MAZE] * own[at.ANSWERED]
    paid[T_AREA] = weights[W_AREA] * own[at.NEW_AREA]
    if weights[W_MILESTONE] != 0.0:
        floor = integer(weights[W_FLOOR])
        now = max(integer(own[at.PROGRESS]), floor) // every
        before = max(integer(own[at.PROGRESS]) - integer(own[at.GAINED]), floor) // every
        paid[T_MILESTONE] = weights[W_MILESTONE] * (now - before)
    raw = 0.0
    for term in range(len(paid)):
        raw += paid[term]
        paid[term] *= weights[W_SCALE]
    if own[at.DIED_NOW] != 0 or own[at.REASON] == at.OVER:
        paid[T_DEATH] = weights[W_DEATH]
    paid[T_FLAG] = weights[W_FLAG] * own[at.CLEARED_NOW]
    if own[at.REASON] == at.STAGNATION:
        paid[T_STAGNATION] = weights[W_STAGNATION]
    return raw


def _build(stamp: int) -> Labor:
    def pay(pointer: Any, index: int, member: int) -> int:
        """Write terms and reward of a game."""
        _ = stamp
        books = fetch(pointer)
        own, paid, weights = books.figures[index], books.paid[index], books.weights[index]
        paid[:] = 0.0
        _ground(own, books.kept[index], weights, paid)
        books.ground[index] = own[at.GAINED]
        books.raw[index] = _pay_one(own, weights, books.milestone_every, paid)
        books.idle[index] = own[at.STUCK]
        books.place[index] = own[at.X]
        total = 0.0
        for term in range(len(books.terms)):
            total += paid[term]
            books.terms[term][index] = paid[term]
        books.reward[index] = total
        return 0

    return pay


pay = _build(game_stamp())


@dataclass(frozen=True, slots=True)
class TermReward:
    """Makes the reward of a batch of games from its options."""

    terms: ClassVar = TERMS
    measures: ClassVar = MEASURES

    options: RewardOptions = field(default_factory=RewardOptions)

    def __call__(self, count: int) -> TermPay:
        """Return the reward of `count` games."""
        return TermPay(self.options, count)


class TermPay:
    """Pays every term; an episode keeps the weights it began with."""

    def __init__(self, options: RewardOptions, count: int) -> None:
        self._next = np.array([options.first_value(name) for name in MEANINGS])
        self._paid = np.zeros((count, len(TERMS)), np.float64)
        self._kept = np.zeros((count, 3), np.int32)
        self._weights = np.tile(self._next, (count, 1))
        self._every = options.milestone_every
        self._figures: Array
        self._slots: StepBuffers

    def bind(self, figures: Array, slots: StepBuffers) -> None:
        """Read these figures and write into these slots."""
        self._figures = figures
        self._slots = slots

    def bound(self) -> Link:
        """Return the paying of one game's last step."""
        books = Books(
            figures=self._figures,
            weights=self._weights,
            kept=self._kept,
            paid=self._paid,
            terms=tuple(self._slots.terms[name] for name in TERMS),
            ground=self._slots.measures[GROUND],
            idle=self._slots.measures[IDLE],
            raw=self._slots.measures[RAW],
            place=self._slots.measures[PLACE],
            reward=self._slots.reward,
            milestone_every=self._every,
        )
        return bind(pay, books)

    def configure(self, settings: Settings) -> None:
        """Take weights for the episodes that begin from here on."""
        values = settings.values()
        for index, name in enumerate(MEANINGS):
            self._next[index] = values.get(PREFIX + name, self._next[index])

    def begin(self, envs: NDArray[np.int64]) -> None:
        """Begin with the present weights and where Mario stands."""
        figures = self._figures
        self._weights[envs] = self._next
        self._kept[envs, LAST_X] = figures[envs, at.X]
        self._kept[envs, LAST_AREA] = figures[envs, at.AREA_SLOT]
        self._kept[envs, OWED] = 0

    def snapshot(self) -> State:
        """Return what is kept of the episodes, and the weights to come."""
        return {
            "kept": self._kept.copy(),
            "weights": self._weights.copy(),
            "next": self._next.copy(),
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self._kept[...] = state["kept"]
        self._weights[...] = state["weights"]
        self._next[...] = state["next"]
