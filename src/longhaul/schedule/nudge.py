"""A setting that leans against a metric."""

from __future__ import annotations

from dataclasses import dataclass

from longhaul.core.control import Decision, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Assignment, Setting
from longhaul.schedule.axis import between


@dataclass(frozen=True, slots=True)
class NudgeState:
    """The recent measurements, newest last."""

    recent: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Nudge:
    """Pull one setting towards its ceiling while a metric is too low, its floor while too high."""

    name: str
    """The controller's unique name."""
    setting: Setting[float]
    """The setting to pull."""
    metric: str
    """The metric that is to stay in the band."""
    band: tuple[float, float]
    """The lowest and highest average at which the setting is left alone."""
    limits: tuple[float, float]
    """The floor and ceiling the setting is pulled towards."""
    rate: float = 0.05
    """The share of the remaining way covered at each measurement."""
    window: int = 50
    """How many measurements are averaged."""

    def __post_init__(self) -> None:
        for field, (low, high) in (("band", self.band), ("limits", self.limits)):
            if low > high:
                raise ConfigError(
                    f"schedule.{self.name}.{field} = [{low}, {high}] has its lower end above "
                    "its upper end"
                )
        if not 0 < self.rate <= 1:
            raise ConfigError(f"schedule.{self.name}.rate = {self.rate} is not in (0, 1]")
        if self.window < 1:
            raise ConfigError(f"schedule.{self.name}.window = {self.window} is below 1")

    @property
    def reads(self) -> tuple[str, ...]:
        """The metric that is to stay in the band."""
        return (self.metric,)

    @property
    def writes(self) -> tuple[str, ...]:
        """The setting that is pulled."""
        return (self.setting.name,)

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """The outermost values it may assign."""
        return tuple(self.setting.to(value) for value in self.limits)

    def initial(self) -> NudgeState:
        """Return the state without measurements."""
        return NudgeState()

    def decide(self, state: NudgeState, view: View) -> Decision[NudgeState]:
        """Move the setting a little if the average left the band."""
        if self.metric not in view.metrics:
            return Decision(state)
        state = NudgeState((*state.recent, float(view.metrics[self.metric]))[-self.window :])
        mean = sum(state.recent) / len(state.recent)
        if self.band[0] <= mean <= self.band[1]:
            return Decision(state)
        is_low = mean < self.band[0]
        goal = self.limits[1] if is_low else self.limits[0]
        now = view.settings[self.setting]
        moved = between(now, goal, self.rate)
        if moved == now:
            return Decision(state)
        side = f"below {self.band[0]:.3g}" if is_low else f"above {self.band[1]:.3g}"
        return Decision(
            state, (self.setting.to(moved),), f"{self.metric} averaged {mean:.3g}, {side}"
        )
