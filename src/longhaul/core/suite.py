"""Frozen lists of situations on which policies are measured and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longhaul.core.env import EnvSource, Episode, Start
from longhaul.core.metrics import Metrics

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Case:
    """One situation: an episode's seed and, where it is not the seed's own, its start."""

    seed: int
    start: Start | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A figure that is worth a column in the table people see."""

    title: str
    metric: str
    form: str = ".3f"


@dataclass(frozen=True, slots=True)
class Suite:
    """A list of cases, the environments they are played in, and what is made of the episodes.

    The environments may differ from those of training in everything a policy does not see: their
    length, their number of rows, their settings. All functions take the episodes in the order of
    the cases; one whose environment failed is missing.
    """

    name: str
    envs: EnvSource
    cases: tuple[Case, ...]
    figures: Callable[[Sequence[Episode]], Metrics]
    """Return the suite's own figures, named `eval/...`."""
    score: Callable[[Episode], float]
    """Return what two policies are compared by, case by case; more is better."""
    conditions: str = ""
    """What else must be the same for two policies to be compared, in words."""
    columns: tuple[Column, ...] = ()
    intervals: Callable[[Sequence[Episode]], Mapping[str, Interval]] = lambda episodes: {}
    """Return 95 % confidence intervals of some of the figures."""
    bounds: Callable[[], Metrics] = dict
    """Return the best value anything could reach, for some of the figures."""
    references: Callable[[], Mapping[str, tuple[Episode, ...]]] = dict
    """Play the cases with policies that learned nothing, by their names."""
    record: Callable[[Sequence[Episode]], dict[str, Any]] = lambda episodes: {}
    """Return what a run's events should keep of an evaluation, as plain JSON values."""
