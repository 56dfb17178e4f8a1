"""Observation and action spaces, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Part:
    """One named array of an observation, per row."""

    shape: tuple[int, ...]
    dtype: str = "float32"


@dataclass(frozen=True, slots=True)
class Discrete:
    """One choice out of `count`; an action is int64 []."""

    count: int
    names: tuple[str, ...] = ()
    """What the choices are called, for people who watch; may be empty."""

    @property
    def counts(self) -> tuple[int, ...]:
        """How many options each choice has."""
        return (self.count,)


@dataclass(frozen=True, slots=True)
class MultiDiscrete:
    """Several independent choices; an action is int64 [len(counts)]."""

    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Continuous:
    """A vector of numbers, clipped by the env to its bounds; an action is float32 [size]."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    counts: ClassVar[tuple[int, ...]] = ()


DURATION = "duration"
"""The measure of an env whose steps differ in length: how many units of time each took. Learners
discount what follows a step by `gamma ** duration`."""
ActionSpec = Discrete | MultiDiscrete | Continuous


class Tier(Enum):
    """How exactly an environment's state can be restored."""

    SNAPSHOT = "snapshot"
    """Native bytes."""
    REPLAY = "replay"
    """Seed and action log, replayed and checked by a hash of the observation."""
    RESTART = "restart"
    """Only at an episode's start: a running episode is abandoned for the next one."""
    NONE = "none"
    """Not at all: a resumed run is statistically the same, not bit for bit."""


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """Everything about an environment that is known before it runs."""

    id: str
    observation: Mapping[str, Part]
    action: ActionSpec
    rows: int = 1
    tier: Tier = Tier.REPLAY
    has_masks: bool = False
    terms: tuple[str, ...] = ()
    """Names of the reward terms the env reports; they add up to the reward."""
    measures: tuple[str, ...] = ()
    """Names of the numbers the env reports of every step beside the reward, for metrics alone; but
    learners discount by the one that is called `DURATION`."""
    row_name: str = "row"
    """What one acting body is called, for people who watch."""

    def in_words(self) -> str:
        """Return what it shows and how it is acted in, for people."""
        parts = [
            f"{name!r} ({part.dtype}, {'x'.join(map(str, part.shape))})"
            for name, part in self.observation.items()
        ]
        match self.action:
            case Discrete(count, names):
                action = f"one of {count} choices" + f" ({', '.join(names)})" * bool(names)
            case MultiDiscrete(counts):
                action = f"{len(counts)} choices, of {', '.join(map(str, counts))}"
            case Continuous(low):
                action = f"{len(low)} numbers" if len(low) > 1 else "a number"
        rows = f" in each of {self.rows} rows" if self.rows > 1 else ""
        return f"observation {', '.join(parts)}; action {action}{rows}"

    @property
    def choices(self) -> int:
        """The width of an action mask: all discrete choices side by side, 0 for continuous."""
        return sum(self.action.counts)
