"""Beginning episodes with a script where learning alone gets nowhere."""

from __future__ import annotations

from dataclasses import dataclass, replace

from longhaul.core.control import Decision, View
from longhaul.core.settings import Assignment
from longhaul.tasks.mario.game.options import SCRIPT_SHARE
from longhaul.tasks.mario.schedule.options import HelpOptions

PROGRESS, FARTHEST = "env/progress", "env/max_progress"
HELPING = "env/helping"
"""The metric that tells who asks for the script: 0 nobody, 1 the beginning, 2 the bootstrap, 3 the
plateau."""
NOBODY, BEGINNING, BOOTSTRAP, PLATEAU = range(4)
REASONS = (
    "the script has been used long enough",
    "the run begins with the script",
    "no episode wins ground",
    "the farthest progress has stopped growing",
)


@dataclass(frozen=True, slots=True)
class HelpState:
    """Who asks for the script until when, and what was seen so far."""

    source: int = NOBODY
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

    @property
    def reads(self) -> tuple[str, ...]:
        """How far episodes come."""
        return (PROGRESS, FARTHEST)

    @property
    def writes(self) -> tuple[str, ...]:
        """The share of episodes with the script."""
        return (SCRIPT_SHARE.name,)

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
            state = replace(state, source=NOBODY)
        state = self._claimed(state, iteration)
        share = self.options.share if state.source != NOBODY else 0.0
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
        if state.source == NOBODY and iteration < options.first_iterations:
            return replace(state, source=BEGINNING, until=options.first_iterations)
        return state

    def _on_plateau(self, state: HelpState, iteration: int) -> bool:
        options = self.options
        if not 0 < options.plateau_after <= iteration or iteration < state.rest_until:
            return False
        # Compared with what was reached a whole window ago, never with itself.
        return len(state.best) > options.plateau_window and state.best[-1] <= state.best[0]
