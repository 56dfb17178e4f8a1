"""Conditions on metrics, and a cap set by another controller."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from longhaul.core.errors import ConfigError
from longhaul.core.metrics import Metrics
from longhaul.core.settings import Setting, Settings

Comparison = Literal[">=", "<=", ">", "<"]

_COMPARE: Mapping[Comparison, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclass(frozen=True, slots=True)
class Criterion:
    """A condition on one metric, whose threshold may depend on the stage and the category."""

    metric: str
    """The metric that is compared."""
    comparison: Comparison
    """How it is compared with the threshold."""
    threshold: float
    """The value it is compared with."""
    by_stage: tuple[float, ...] = ()
    """Thresholds for stage 0, 1, ...; the last one also serves all later stages."""
    window: int = 1
    """Compare the median of this many evaluations; until there are so many it does not hold."""
    by_category: dict[str, float] = field(default_factory=dict)
    """Thresholds for single categories; they go before `by_stage`."""
    window_by_category: dict[str, int] = field(default_factory=dict)
    """Windows for single categories, over the evaluations of that category alone."""
    overall_until_full: bool = False
    """Use the median over all categories while a category's own window is not full."""

    def __post_init__(self) -> None:
        if min(self.window, *self.window_by_category.values(), self.window) < 1:
            raise ConfigError(f"the criterion on {self.metric!r} has a window below 1")

    @property
    def depth(self) -> int:
        """How many measurements have to be remembered."""
        return max(self.window, *self.window_by_category.values(), 1)

    def threshold_at(self, stage: int, category: str) -> float:
        """Return the threshold in force."""
        if category in self.by_category:
            return self.by_category[category]
        if self.by_stage:
            return self.by_stage[max(0, min(stage, len(self.by_stage) - 1))]
        return self.threshold

    def judge(self, history: History, *, stage: int, category: str) -> Verdict:
        """Return whether the condition holds, given a history with the newest measurement."""
        recent, window = history.of(self.metric), self.window
        if category in self.window_by_category:
            own, own_window = history.of(self.metric, category), self.window_by_category[category]
            if len(own) >= own_window or not self.overall_until_full:
                recent, window = own, own_window
        threshold = self.threshold_at(stage, category)
        value = median(recent[-window:]) if len(recent) >= window else None
        return Verdict(
            metric=self.metric,
            comparison=self.comparison,
            threshold=threshold,
            window=window,
            value=value,
            holds=value is not None and _COMPARE[self.comparison](value, threshold),
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one criterion stood at one evaluation."""

    metric: str
    comparison: Comparison
    threshold: float
    window: int
    value: float | None  # None while the window is not full
    holds: bool

    def __str__(self) -> str:
        what = self.metric if self.window == 1 else f"median of {self.window} {self.metric}"
        if self.value is None:
            return f"{what} not known yet, {self.comparison} {self.threshold:g} needed"
        says = "" if self.holds else "not "
        return f"{what} = {self.value:.4g} is {says}{self.comparison} {self.threshold:g}"


@dataclass(frozen=True, slots=True)
class History:
    """The last measurements of each metric, over all categories and by category."""

    overall: dict[str, tuple[float, ...]] = field(default_factory=dict)
    by_category: dict[str, dict[str, tuple[float, ...]]] = field(default_factory=dict)

    def of(self, metric: str, category: str | None = None) -> tuple[float, ...]:
        """Return the measurements of a metric, newest last; of one category if given."""
        if category is None:
            return self.overall.get(metric, ())
        return self.by_category.get(category, {}).get(metric, ())

    def with_(self, metrics: Metrics, criteria: Iterable[Criterion], category: str) -> History:
        """Return the history with the newest measurements, as long as the criteria need."""
        criteria = tuple(criteria)
        depth = {
            criterion.metric: max(c.depth for c in criteria if c.metric == criterion.metric)
            for criterion in criteria
        }
        overall = {
            metric: (*self.of(metric), float(metrics[metric]))[-keep:]
            for metric, keep in depth.items()
        }
        if not any(criterion.window_by_category for criterion in criteria):
            return History(overall)
        own = {
            metric: (*self.of(metric, category), float(metrics[metric]))[-keep:]
            for metric, keep in depth.items()
        }
        return History(overall, {**self.by_category, category: own})


def all_measured(criteria: Iterable[Criterion], metrics: Metrics) -> bool:
    """Whether every criterion's metric was measured."""
    return all(criterion.metric in metrics for criterion in criteria)


def metric_names(criteria: Iterable[Criterion]) -> tuple[str, ...]:
    """Return the metrics the criteria look at, each once, in order."""
    return tuple(dict.fromkeys(criterion.metric for criterion in criteria))


@dataclass(frozen=True, slots=True)
class Limit:
    """The highest index allowed, read from an integer setting such as a gate's stage."""

    setting: Setting[int]
    """The setting that holds the cap."""
    allowance: tuple[int, ...] = ()
    """The highest index for each value of the setting, from 0; empty: the value itself."""

    def __post_init__(self) -> None:
        if any(index < 0 for index in self.allowance):
            raise ConfigError(f"the allowance {self.allowance} has an index below 0")

    def highest(self, settings: Settings, *, top: int) -> int:
        """Return the highest index allowed, at least 0 and at most `top`."""
        value = max(0, settings[self.setting])
        if self.allowance:
            value = self.allowance[min(value, len(self.allowance) - 1)]
        return min(value, top)
