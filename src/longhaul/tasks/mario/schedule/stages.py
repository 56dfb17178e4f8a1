"""Stages one after another: the next joins when the newest is cleared often enough."""

from __future__ import annotations

from dataclasses import dataclass

from longhaul.core.control import Decision, View
from longhaul.core.settings import Assignment
from longhaul.tasks.mario.game.stages import STAGES
from longhaul.tasks.mario.schedule.options import StageOptions

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

    @property
    def reads(self) -> tuple[str, ...]:
        """The clear rate of every stage."""
        return tuple(stage_rate(stage) for stage in self.stages)

    @property
    def writes(self) -> tuple[str, ...]:
        """The stages that are played."""
        return (STAGES.name,)

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
