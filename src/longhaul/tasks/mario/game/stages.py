"""The 32 stages, lists of them, and how one is drawn for an episode."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from longhaul.core.errors import ConfigError
from longhaul.core.settings import Setting, SettingValue

WORLDS = 8
STAGES_PER_WORLD = 4
WORLDS_WITH_PROLOGUE = (1, 2, 4, 7)
"""Their second stage begins with a walk into a pipe, which counts as a separate area."""


@dataclass(frozen=True, slots=True, order=True)
class Stage:
    """One of the 32 stages."""

    world: int
    number: int

    def __post_init__(self) -> None:
        if not 1 <= self.world <= WORLDS or not 1 <= self.number <= STAGES_PER_WORLD:
            raise ConfigError(f"there is no stage {self}: the stages are 1-1 to 8-4")

    def __str__(self) -> str:
        """Return `world-stage`."""
        return f"{self.world}-{self.number}"

    @property
    def area(self) -> int:
        """The game's own number of the area where it is played, from 1 on."""
        behind_prologue = self.world in WORLDS_WITH_PROLOGUE and self.number >= 2
        return self.number + (1 if behind_prologue else 0)

    @property
    def index(self) -> int:
        """Its place in the game, from 0 on."""
        return (self.world - 1) * STAGES_PER_WORLD + self.number - 1

    @staticmethod
    def at(index: int) -> Stage:
        """Return the stage at a place in the game."""
        return Stage(index // STAGES_PER_WORLD + 1, index % STAGES_PER_WORLD + 1)

    @staticmethod
    def parse(text: str) -> Stage:
        """Return the stage written as `world-stage`."""
        found = re.fullmatch(r"\s*(\d+)-(\d+)\s*", text)
        if not found:
            raise ConfigError(f"{text!r} is not a stage; use world-stage, 1-1 to 8-4")
        return Stage(int(found[1]), int(found[2]))


ALL_STAGES = tuple(Stage.at(index) for index in range(WORLDS * STAGES_PER_WORLD))
"""In the order of the game."""

STAGES: Setting[tuple[SettingValue, ...]] = Setting(
    "mario.stages",
    (),
    "The stages episodes are played on, each with the weight it is drawn with: (('1-1', 1.0), ...);"
    " none: those of the options",
)


def span(first: Stage, count: int) -> tuple[Stage, ...]:
    """Return `count` stages that follow each other in the game."""
    if count < 1 or first.index + count > len(ALL_STAGES):
        raise ConfigError(
            f"{count} stages from {first} on do not fit: the game ends with 8-4, "
            f"so at most {len(ALL_STAGES) - first.index} begin there"
        )
    return ALL_STAGES[first.index : first.index + count]


@dataclass(frozen=True, slots=True)
class Lottery:
    """Stages with weights; which one an episode is played on depends on its own draw only."""

    stages: tuple[Stage, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.stages or len(self.stages) != len(self.weights):
            raise ConfigError("there must be at least one stage, and one weight for each")
        good = all(math.isfinite(weight) and weight >= 0 for weight in self.weights)
        if not good or sum(self.weights) <= 0:
            raise ConfigError(
                f"the weights of stages are 0 or more and not all 0, not {list(self.weights)}"
            )

    def draw(self, share: float) -> Stage:
        """Return the stage at a share, in [0, 1), of all weights."""
        goal = share * sum(self.weights)
        for stage, weight in zip(self.stages, self.weights, strict=True):
            goal -= weight
            if goal < 0:
                return stage
        return max(zip(self.weights, self.stages, strict=True))[1]


def lottery(stages: Sequence[str], weights: Iterable[float] = ()) -> Lottery:
    """Return the stages a user listed: single ones, `1-1`, or spans, `1-1..1-4`."""
    listed: list[Stage] = []
    for text in stages:
        first, dots, last = text.partition("..")
        begin = Stage.parse(first)
        end = Stage.parse(last) if dots else begin
        listed += span(begin, end.index - begin.index + 1)
    given = tuple(float(weight) for weight in weights)
    return Lottery(tuple(listed), given or (1.0,) * len(listed))


def lottery_of(setting: tuple[SettingValue, ...]) -> Lottery:
    """Return the stages and weights that the setting holds."""
    stages, weights = [], []
    for pair in setting:
        match pair:
            case (str() as name, int() | float() as weight):
                stages.append(Stage.parse(name))
                weights.append(float(weight))
            case _:
                raise ConfigError(f"{STAGES.name} holds pairs ('1-1', weight), not {pair!r}")
    return Lottery(tuple(stages), tuple(weights))
