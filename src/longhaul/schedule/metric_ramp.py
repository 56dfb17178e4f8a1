"""A setting that moves as a metric does, and never back."""

from __future__ import annotations

from dataclasses import dataclass

from longhaul.core.control import Decision, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Assignment, Setting
from longhaul.schedule.ramp import WritesFromStart, between


@dataclass(frozen=True, slots=True)
class MetricRampState:
    """How far the metric has come, from 0 to 1."""

    share: float = 0.0


@dataclass(frozen=True, slots=True)
class MetricRamp(WritesFromStart):
    """Anneal one setting from `start` to `end` while a metric goes from `low` to `high`.

    A metric that falls again changes nothing: the setting stays where it is.
    """

    name: str
    """The controller's unique name."""
    setting: Setting[float]
    """The setting to anneal."""
    metric: str
    """The metric it follows."""
    low: float
    """Where `start` holds; it may lie above `high`."""
    high: float
    """Where `end` is reached."""
    start: float | None = None
    """The value at `low`; the config value of the setting if left out."""
    end: float = 0.0
    """The value at `high` and after it."""

    def __post_init__(self) -> None:
        if self.low == self.high:
            raise ConfigError(f"schedule.{self.name}: low and high are both {self.low}")

    @property
    def reads(self) -> tuple[str, ...]:
        """The metric."""
        return (self.metric,)

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """The outermost values it may assign."""
        return tuple(self.setting.to(value) for value in sorted({self.first, self.end}))

    def initial(self) -> MetricRampState:
        """Return the state before the first measurement."""
        return MetricRampState()

    def decide(self, state: MetricRampState, view: View) -> Decision[MetricRampState]:
        """Put the setting where the metric has come to."""
        share = state.share
        if self.metric in view.metrics:
            here = (view.metrics[self.metric] - self.low) / (self.high - self.low)
            share = min(max(share, here), 1.0)
        value = between(self.first, self.end, share)
        if view.settings[self.setting] == value:
            return Decision(MetricRampState(share))
        why = f"{self.metric} has come {share:.1%} of the way to {self.high:g}"
        return Decision(MetricRampState(share), (self.setting.to(value),), why)
