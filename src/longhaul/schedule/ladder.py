"""A list of values that a setting climbs one at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Generic

from longhaul.core.config import AT_LEAST_1, check_ranges
from longhaul.core.control import Decision, View, WritesOne
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Assignment, Setting, T
from longhaul.schedule.criterion import Criterion, History, Limit, all_measured
from longhaul.schedule.ramp import Axis, check_axis, position, words


@dataclass(frozen=True, slots=True)
class LadderState:
    """The streak of evaluations that passed; the rung itself is the setting's value."""

    streak: int = 0
    history: History = field(default_factory=History)


@dataclass(frozen=True, slots=True)
class Ladder(WritesOne, Generic[T]):
    """Climb a list of values at given points of the run, or when a metric is good enough.

    With neither points nor a criterion the limit alone decides. A value that is not on the ladder
    is put on its first rung.
    """

    name: str
    """The controller's unique name."""
    setting: Setting[T]
    """The setting that climbs."""
    values: tuple[T, ...]
    """The rungs, lowest first, all different."""
    at: tuple[float, ...] = ()
    """Where the run must have come for the second, third, ... rung."""
    along: Axis = "env_steps"
    """What `at` is counted in."""
    total: int = 0
    """Length of the whole run, needed along `run`; the run's own length if left out."""
    when: Criterion | None = None
    """Climb once this holds, instead of at points; `by_stage` counts the rungs from 0."""
    patience: int = 1
    """Successive measurements at which `when` must hold."""
    limit: Limit | None = None
    """A cap on the rung's index, from 0; a value above it falls to the cap."""

    def __post_init__(self) -> None:
        check_axis(self.name, self.along, self.total)
        where = f"schedule.{self.name}"
        if len(self.values) < 2 or len(set(self.values)) != len(self.values):
            raise ConfigError(
                f"{where}.values = {list(self.values)} must be at least two different rungs"
            )
        if self.at and self.when is not None:
            raise ConfigError(f"{where} has both `at` and `when`; a ladder climbs by one of them")
        if not self.at and self.when is None and self.limit is None:
            raise ConfigError(f"{where} never climbs; it needs `at`, `when` or `limit`")
        if self.at and len(self.at) != len(self.values) - 1:
            raise ConfigError(
                f"{where}.at has {len(self.at)} points for {len(self.values)} rungs; "
                f"{len(self.values) - 1} are needed, one for each rung but the first"
            )
        if any(not lower <= upper for lower, upper in pairwise(self.at)):
            raise ConfigError(f"{where}.at = {list(self.at)} does not ascend")
        check_ranges(self, where, {AT_LEAST_1: "patience"})

    @property
    def reads(self) -> tuple[str, ...]:
        """The metric of the criterion and the setting that caps the rung."""
        metrics = () if self.when is None else (self.when.metric,)
        return metrics if self.limit is None else (*metrics, self.limit.setting.name)

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """Every rung."""
        return tuple(self.setting.to(value) for value in self.values)

    def initial(self) -> LadderState:
        """Return the state before the first measurement."""
        return LadderState()

    def decide(self, state: LadderState, view: View) -> Decision[LadderState]:
        """Climb at most one rung, or fall to the limit."""
        top = len(self.values) - 1
        highest = top if self.limit is None else self.limit.highest(view.settings, top=top)
        present = view.settings[self.setting]
        if present not in self.values:
            return Decision(state, (self.setting.to(self.values[0]),), "the ladder's first rung")
        rung = self.values.index(present)
        if rung > highest:
            return Decision(
                LadderState(history=state.history),
                (self.setting.to(self.values[highest]),),
                f"{self._limit_words(view)} allows no rung above {highest}",
            )
        if self.when is None:
            return self._climb_by_progress(state, view, rung=rung, highest=highest)
        return self._climb_by_metric(state, view, self.when, rung=rung, highest=highest)

    def _climb_by_progress(
        self, state: LadderState, view: View, *, rung: int, highest: int
    ) -> Decision[LadderState]:
        place = position(view.progress, self.along, self.total)
        reached = sum(point <= place for point in self.at) if self.at else highest
        if rung >= min(reached, highest):
            return Decision(state)
        why = f"rung {rung + 1} at {words(self.along, place)}"
        if not self.at:
            why = f"{self._limit_words(view)} allows rung {rung + 1}"
        return Decision(state, (self.setting.to(self.values[rung + 1]),), why)

    def _climb_by_metric(
        self, state: LadderState, view: View, when: Criterion, *, rung: int, highest: int
    ) -> Decision[LadderState]:
        if not all_measured((when,), view.metrics):
            return Decision(state)
        history = state.history.with_(view.metrics, (when,), "")
        verdict = when.judge(history, stage=rung, category="")
        if not verdict.holds:
            return Decision(LadderState(history=history))
        streak = min(state.streak + 1, self.patience)
        if streak < self.patience or rung >= highest:
            return Decision(LadderState(streak, history))
        return Decision(
            LadderState(history=history), (self.setting.to(self.values[rung + 1]),), str(verdict)
        )

    def _limit_words(self, view: View) -> str:
        assert self.limit is not None
        return f"{self.limit.setting.name} = {view.settings[self.limit.setting]}"
