"""Hints: what a rule found, and what rules are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, ClassVar, Protocol

from longhaul.core.control import Progress

HINT_EVENT = "hint"
OPENING = 5
"""How many of a metric's first measurements are remembered for good."""
HISTORY = 64
"""How many measurements, spread evenly over all there were, are remembered at most."""
SCHEDULED = "scheduled"
"""A fact: for each setting that a controller moves, the part of the config with that controller."""
Fact = bool | int | float | str
Facts = Mapping[str, Any]
"""What is fixed for a run: its config with dotted keys, and what is known of its task."""


@lru_cache(maxsize=8192)
def matches(name: str, pattern: str) -> bool:
    """Whether a metric's name fits a pattern in which `*` stands for any text."""
    return fnmatchcase(name, pattern)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found: the evidence, what may cause it, and what to do about it."""

    evidence: str
    """What was measured, with its numbers, as a sentence."""
    cause: str
    """Why that may be so, as a sentence in plain words."""
    advice: str
    """What to change and by how much, as a sentence."""
    setting: str = ""
    """The config key to change, where it is one."""
    value: Fact | None = None
    """The value to give it, where one can be named."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A finding as it is reported: its rule, and how often it has been reported."""

    rule: str
    finding: Finding
    times: int = 1

    @property
    def text(self) -> str:
        """The whole hint in words."""
        found = self.finding
        still = "" if self.times == 1 else "Still: "
        return f"{still}{found.evidence} {found.cause} {found.advice}"

    def as_row(self) -> dict[str, Any]:
        """Return the hint as plain values for the run's events."""
        found = self.finding
        row: dict[str, Any] = {
            "event": HINT_EVENT,
            "rule": self.rule,
            "text": self.text,
            "evidence": found.evidence,
            "cause": found.cause,
            "advice": found.advice,
            "times": self.times,
        }
        if found.setting:
            row["setting"] = found.setting
        if found.value is not None:
            row["value"] = found.value
        return row


@dataclass(frozen=True, slots=True)
class MetricHistory:
    """The measurements of one metric that are remembered, oldest first."""

    opening: Sequence[float]
    iterations: Sequence[int]
    values: Sequence[float]
    history: Sequence[tuple[int, float]] = ()


NOT_MEASURED = MetricHistory((), (), ())


@dataclass(frozen=True, slots=True)
class Recent:
    """What rules look at: the last measurements of a run, and what is fixed for it."""

    progress: Progress
    span: int
    """Iterations that have been watched so far, this one included."""
    facts: Facts
    series: Mapping[str, MetricHistory] = field(default_factory=dict)

    def values(self, metric: str, over: int) -> Sequence[float]:
        """Return what was measured in the last `over` iterations, oldest first."""
        found = self.series.get(metric, NOT_MEASURED)
        after = self.progress.iteration - over
        begin = len(found.iterations)
        while begin and found.iterations[begin - 1] > after:
            begin -= 1
        return [found.values[index] for index in range(begin, len(found.values))]

    def latest(self, metric: str, count: int) -> Sequence[float]:
        """Return the last `count` measurements that are remembered, however long ago."""
        found = self.series.get(metric, NOT_MEASURED)
        length = len(found.values)
        return [found.values[index] for index in range(max(0, length - count), length)]

    def last(self, metric: str) -> float | None:
        """Return what was measured in this very iteration, or None."""
        found = self.series.get(metric, NOT_MEASURED)
        is_new = bool(found.iterations) and found.iterations[-1] == self.progress.iteration
        return found.values[-1] if is_new else None

    def opening(self, metric: str) -> Sequence[float]:
        """Return the first few measurements since watching began."""
        return self.series.get(metric, NOT_MEASURED).opening

    def history(self, metric: str) -> Sequence[tuple[int, float]]:
        """Return iterations and values, thinned out evenly, since watching began."""
        return self.series.get(metric, NOT_MEASURED).history

    def names(self, pattern: str) -> list[str]:
        """Return the metrics measured in this iteration whose names match, `*` for any text."""
        return [
            name for name in self.series if matches(name, pattern) and self.last(name) is not None
        ]

    def number(self, fact: str, otherwise: float = 0.0) -> float:
        """Return a fact of the run that is a number."""
        value = self.facts.get(fact, otherwise)
        return float(value) if isinstance(value, (int, float)) else otherwise

    def setting(self, key: str) -> str:
        """Return a config key as advice names it, with what else sets it and must be changed."""
        sets = self.facts.get(SCHEDULED, {}).get(key)
        return f"{key} (which {sets} sets)" if sets else key


class Rule(Protocol):
    """A frozen dataclass of thresholds with one pure method over recent measurements.

    `judge` may depend on nothing else: run again over the records of a run, a rule gives the same
    findings.
    """

    @property
    def name(self) -> str:
        """The rule's unique name; a task's rule takes the place of a general one of its name."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the metrics it looks at; `*` stands for any text."""

    @property
    def window(self) -> int:
        """How many iterations of them it needs to see."""

    @property
    def cooldown(self) -> int:
        """Iterations before it may speak again, twice as many each time."""

    @property
    def timed(self) -> bool:
        """Whether it looks at anything that depends on a clock."""

    def judge(self, recent: Recent) -> Finding | None:
        """Return what is wrong after this iteration, or None."""


@dataclass(frozen=True, slots=True)
class HintRule:
    """What most rules have in common; a rule adds its thresholds and `judge`."""

    name: str = ""
    window: int = 1
    """Iterations that are looked at."""
    cooldown: int = 200
    """Iterations before the rule may report again; doubled each time."""
    timed: bool = False
    reads: ClassVar[tuple[str, ...]] = ()
