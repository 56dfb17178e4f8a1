"""Stages one after another: the next joins when the newest is cleared often enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from longhaul.core.control import Controller, Decision, NoState, Stateless, View, WritesOne
from longhaul.core.settings import Assignment, Setting
from longhaul.tasks.mario.game.options import SCRIPT_SHARE
from longhaul.tasks.mario.game.stages import STAGES
from longhaul.tasks.mario.options import HARD_SHARE, HelpOptions, MarioOptions, StageOptions
from longhaul.tasks.mario.payments import PREFIX

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
    reads: ClassVar = (FRESH_CLEAR_RATE,)
    writes: ClassVar = (HARD_SHARE.name,)

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
class MilestonesOnce(Stateless, WritesOne):
    """Pay a milestone only until the run has reached it."""

    setting: Setting[float]
    """Up to where milestones pay nothing."""
    name: str = "milestones"
    metric: str = "env/max_progress"

    @property
    def reads(self) -> tuple[str, ...]:
        """The farthest progress of an iteration."""
        return (self.metric,)

    def decide(self, state: NoState, view: View) -> Decision[NoState]:
        """Raise the floor to the farthest progress."""
        reached = view.metrics.get(self.metric)
        if reached is None or reached <= view.settings[self.setting]:
            return Decision(state)
        return Decision(state, (self.setting.to(float(reached)),), f"{reached:.0f} was reached")


@dataclass(frozen=True, slots=True)
class EarlyWindow(Stateless, WritesOne):
    """End the early payment after so many iterations."""

    setting: Setting[float]
    """The weight of the early payment."""
    iterations: int
    name: str = "early-window"

    def decide(self, state: NoState, view: View) -> Decision[NoState]:
        """Set the weight to 0 when the window is over."""
        over = view.progress.iteration >= self.iterations
        if not over or view.settings[self.setting] == 0.0:
            return Decision(state)
        return Decision(state, (self.setting.to(0.0),), "the early window is over")


WINDOW = 10
"""Iterations over which the newest stage's clear rate is averaged."""
OPEN = "curriculum/stages_open"


def stage_rate(stage: str) -> str:
    """Return the name of the metric with a stage's clear rate in training, from the true start."""
    return f"env/clear_rate/{stage}"


@dataclass(frozen=True, slots=True)
class CurriculumState:
    """How many stages are open, and the newest one's recent clear rates."""

    opened: int = 1
    recent: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class StageCurriculum:
    """Play the stages open so far, the newest most often."""

    stages: tuple[str, ...]
    options: StageOptions
    name: str = "stages"
    writes: ClassVar = (STAGES.name,)

    @property
    def reads(self) -> tuple[str, ...]:
        """The clear rate of every stage."""
        return tuple(stage_rate(stage) for stage in self.stages)

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """The first and the last list it may assign."""
        return (STAGES.to(self._listed(1)), STAGES.to(self._listed(len(self.stages))))

    def initial(self) -> CurriculumState:
        """Return the state with one stage open."""
        return CurriculumState()

    def decide(self, state: CurriculumState, view: View) -> Decision[CurriculumState]:
        """Open the next stage once the newest is cleared often enough."""
        newest = self.stages[state.opened - 1]
        rate = view.metrics.get(stage_rate(newest))
        why = f"{newest} is played"
        if rate is not None:
            recent = (*state.recent, float(rate))[-WINDOW:]
            mean = sum(recent) / len(recent)
            state = CurriculumState(state.opened, recent)
            is_passed = len(recent) == WINDOW and mean >= self.options.threshold
            if is_passed and state.opened < len(self.stages):
                state = CurriculumState(state.opened + 1)
                joined = self.stages[state.opened - 1]
                why = f"{newest} is cleared in {mean:.0%} of the episodes; {joined} joins"
        metrics = {OPEN: float(state.opened)}
        listed = self._listed(state.opened)
        if view.settings[STAGES] == listed:
            return Decision(state, metrics=metrics)
        return Decision(state, (STAGES.to(listed),), why, metrics)

    def _listed(self, opened: int) -> tuple[tuple[str, float], ...]:
        old = [(stage, self.options.old_weight) for stage in self.stages[: opened - 1]]
        return (*old, (self.stages[opened - 1], 1.0))


REDRAW_EVERY = 10
"""Iterations between two changes of the weights: every change is an event of the run."""
STEPS_OF_WEIGHT = 20


@dataclass(frozen=True, slots=True)
class FailureState:
    """The smoothed clear rate of every stage, 0 before its first episode."""

    rates: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class StagesByFailure:
    """Play all stages, each as often as it is failed."""

    stages: tuple[str, ...]
    options: StageOptions
    name: str = "stages"

    @property
    def reads(self) -> tuple[str, ...]:
        """The clear rate of every stage."""
        return tuple(stage_rate(stage) for stage in self.stages)

    @property
    def writes(self) -> tuple[str, ...]:
        """How often each stage is played."""
        return (STAGES.name,)

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """All stages always failed, and none ever."""
        count = len(self.stages)
        return tuple(STAGES.to(self._listed((rate,) * count)) for rate in (0.0, 1.0))

    def initial(self) -> FailureState:
        """Return the state in which nothing was cleared."""
        return FailureState((0.0,) * len(self.stages))

    def decide(self, state: FailureState, view: View) -> Decision[FailureState]:
        """Follow the clear rates."""
        rates = []
        for stage, before in zip(self.stages, state.rates, strict=True):
            now = float(view.metrics.get(stage_rate(stage), before))
            rates.append(before + SMOOTHING * (now - before))
        state, listed = FailureState(tuple(rates)), self._listed(rates)
        is_due = view.progress.iteration % REDRAW_EVERY == 0
        if not is_due or view.settings[STAGES] == listed:
            return Decision(state)
        hardest = self.stages[rates.index(min(rates))]
        return Decision(state, (STAGES.to(listed),), f"{hardest} is failed most often")

    def _listed(self, rates: Sequence[float]) -> tuple[tuple[str, float], ...]:
        least = self.options.old_weight
        weights = (round((1.0 - rate) * STEPS_OF_WEIGHT) / STEPS_OF_WEIGHT for rate in rates)
        found = zip(self.stages, weights, strict=True)
        return tuple((stage, max(weight, least)) for stage, weight in found)


STAGE_ORDERS: Mapping[str, Callable[[tuple[str, ...], StageOptions], Controller[Any]]] = {
    "curriculum": StageCurriculum,
    "failures": StagesByFailure,
}


def build_controllers(options: MarioOptions) -> tuple[Controller[Any], ...]:
    """Return the controllers the options ask for, in the order they decide."""
    weights: dict[str, Setting[float]] = {one.name: one for one in options.reward.settings()}
    found: list[Controller[Any]] = []
    if options.schedule.help.is_on:
        found.append(Help(options.schedule.help))
    stages = options.schedule.stages
    if stages.order in STAGE_ORDERS:
        names = tuple(str(stage) for stage in options.lottery().stages)
        found.append(STAGE_ORDERS[stages.order](names, stages))
    if options.starts.is_on and options.starts.adapts:
        found.append(HardStarts(options.starts.share))
    if options.reward.milestone and options.reward.milestones_once:
        found.append(MilestonesOnce(weights[f"{PREFIX}milestone_floor"]))
    if options.reward.early and options.reward.early_iterations:
        found.append(EarlyWindow(weights[f"{PREFIX}early"], options.reward.early_iterations))
    return tuple(found)


PROGRESS, FARTHEST = "env/progress", "env/max_progress"
HELPING = "env/helping"
"""The metric of what asks for the script: 0 nothing, 1 the beginning, 2 the bootstrap, 3 the
plateau."""
NONE, BEGINNING, BOOTSTRAP, PLATEAU = range(4)
REASONS = (
    "the script has been used long enough",
    "the run begins with the script",
    "no episode wins ground",
    "the farthest progress has stopped growing",
)


@dataclass(frozen=True, slots=True)
class HelpState:
    """Who asks for the script until when, and what was seen so far."""

    source: int = NONE
    until: int = 0  # the last iteration with the script
    bootstrapped: bool = False
    idle: int = 0  # iterations in a row without new ground
    best: tuple[float, ...] = ()  # the farthest progress after each of the last iterations
    rest_until: int = 0


@dataclass(frozen=True, slots=True)
class Help:
    """Decide whose turn it is: the plateau's before the bootstrap's before the beginning's."""

    options: HelpOptions
    name: str = "help"
    reads: ClassVar = (PROGRESS, FARTHEST)
    writes: ClassVar = (SCRIPT_SHARE.name,)

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """The outermost values it may assign."""
        return (SCRIPT_SHARE.to(0.0), SCRIPT_SHARE.to(self.options.share))

    def initial(self) -> HelpState:
        """Return the state before the first iteration."""
        return HelpState()

    def decide(self, state: HelpState, view: View) -> Decision[HelpState]:
        """Choose the source of the next iteration."""
        iteration = view.progress.iteration
        state = self._seen(state, view)
        if iteration >= state.until:
            state = replace(state, source=NONE)
        state = self._claimed(state, iteration)
        share = self.options.share if state.source != NONE else 0.0
        metrics = {HELPING: float(state.source)}
        if view.settings[SCRIPT_SHARE] == share:
            return Decision(state, metrics=metrics)
        return Decision(state, (SCRIPT_SHARE.to(share),), REASONS[state.source], metrics)

    def _seen(self, state: HelpState, view: View) -> HelpState:
        if PROGRESS not in view.metrics:
            return state
        idle = state.idle + 1 if view.metrics[FARTHEST] <= 0 else 0
        before = state.best[-1] if state.best else 0.0
        best = (*state.best, max(before, view.metrics[FARTHEST]))
        return replace(state, idle=idle, best=best[-self.options.plateau_window - 1 :])

    def _claimed(self, state: HelpState, iteration: int) -> HelpState:
        options = self.options
        end = iteration + options.iterations
        if self._on_plateau(state, iteration):
            rest = end + options.plateau_rest
            return replace(state, source=PLATEAU, until=end, rest_until=rest, best=state.best[-1:])
        if state.source == PLATEAU:
            return state
        is_late = 0 < options.bootstrap_after <= iteration
        never_won = not state.best or state.best[-1] <= 0
        if is_late and never_won and not state.bootstrapped:
            return replace(state, source=BOOTSTRAP, until=end, bootstrapped=True)
        if 0 < options.patience <= state.idle:
            return replace(state, source=BOOTSTRAP, until=end, idle=0)
        if state.source == NONE and iteration < options.first_iterations:
            return replace(state, source=BEGINNING, until=options.first_iterations)
        return state

    def _on_plateau(self, state: HelpState, iteration: int) -> bool:
        options = self.options
        if not 0 < options.plateau_after <= iteration or iteration < state.rest_until:
            return False
        # Compared with what was reached a whole window ago, never with itself.
        return len(state.best) > options.plateau_window and state.best[-1] <= state.best[0]
