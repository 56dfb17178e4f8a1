"""Small decisions over one setting each: hard starts, milestones, the early payment."""

from __future__ import annotations

from dataclasses import dataclass

from longhaul.core.control import Decision, View
from longhaul.core.settings import Assignment, Setting
from longhaul.tasks.mario.starts.options import HARD_SHARE

FRESH_CLEAR_RATE = "env/clear_rate_fresh"
SMOOTHING = 0.1


@dataclass(frozen=True, slots=True)
class RateState:
    """The smoothed clear rate of fresh episodes."""

    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class HardStarts:
    """Deal fewer hard starts the more fresh episodes clear their stage."""

    share: float
    name: str = "hard-starts"

    @property
    def reads(self) -> tuple[str, ...]:
        """How many episodes from the true start clear their stage."""
        return (FRESH_CLEAR_RATE,)

    @property
    def writes(self) -> tuple[str, ...]:
        """The share of hard starts."""
        return (HARD_SHARE.name,)

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """The outermost values it may assign."""
        return (HARD_SHARE.to(0.0), HARD_SHARE.to(self.share))

    def initial(self) -> RateState:
        """Return the state in which nothing was cleared."""
        return RateState()

    def decide(self, state: RateState, view: View) -> Decision[RateState]:
        """Set the share to what is left to learn from the true start."""
        if FRESH_CLEAR_RATE not in view.metrics:
            return Decision(state)
        rate = state.rate + SMOOTHING * (float(view.metrics[FRESH_CLEAR_RATE]) - state.rate)
        state = RateState(min(max(rate, 0.0), 1.0))
        share = round(self.share * (1.0 - state.rate), 2)
        if view.settings[HARD_SHARE] == share:
            return Decision(state)
        return Decision(
            state, (HARD_SHARE.to(share),), f"{state.rate:.0%} of the fresh episodes clear"
        )


@dataclass(frozen=True, slots=True)
class Nothing:
    """No state: the setting says it all."""


@dataclass(frozen=True, slots=True)
class MilestonesOnce:
    """Pay a milestone only until the run has reached it."""

    setting: Setting[float]
    name: str = "milestones"
    metric: str = "env/max_progress"

    @property
    def reads(self) -> tuple[str, ...]:
        """The farthest progress of an iteration."""
        return (self.metric,)

    @property
    def writes(self) -> tuple[str, ...]:
        """Up to where milestones pay nothing."""
        return (self.setting.name,)

    def initial(self) -> Nothing:
        """Return the empty state."""
        return Nothing()

    def decide(self, state: Nothing, view: View) -> Decision[Nothing]:
        """Raise the floor to the farthest progress."""
        reached = view.metrics.get(self.metric)
        if reached is None or reached <= view.settings[self.setting]:
            return Decision(state)
        return Decision(state, (self.setting.to(float(reached)),), f"{reached:.0f} was reached")


@dataclass(frozen=True, slots=True)
class EarlyWindow:
    """End the early payment after so many iterations."""

    setting: Setting[float]
    iterations: int
    name: str = "early-window"

    @property
    def reads(self) -> tuple[str, ...]:
        """No metric."""
        return ()

    @property
    def writes(self) -> tuple[str, ...]:
        """The weight of the early payment."""
        return (self.setting.name,)

    def initial(self) -> Nothing:
        """Return the empty state."""
        return Nothing()

    def decide(self, state: Nothing, view: View) -> Decision[Nothing]:
        """Set the weight to 0 when the window is over."""
        over = view.progress.iteration >= self.iterations
        if not over or view.settings[self.setting] == 0.0:
            return Decision(state)
        return Decision(state, (self.setting.to(0.0),), "the early window is over")
