"""The density penalty over the phases of a run, as far as the gate allows."""

from __future__ import annotations

from dataclasses import dataclass

from longhaul.core.control import Decision, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Assignment, Setting
from longhaul.schedule.axis import between
from longhaul.schedule.limit import Limit
from longhaul.tasks.fish.curriculum import Curriculum
from longhaul.tasks.fish.schedule_options import LadderOptions

WHERE = "options.training.ladder"


@dataclass(frozen=True, slots=True)
class LadderState:
    """Nothing: the penalty follows from the iteration and the gate's stage."""


@dataclass(frozen=True, slots=True)
class PenaltyLadder:
    """Give every phase its density penalty; a phase the gate does not allow yet has to wait."""

    options: LadderOptions
    curriculum: Curriculum
    setting: Setting[float]
    limit: Limit | None = None
    """The highest phase in use, as an index from 0; none: all of them."""
    name: str = "penalty-ladder"

    def __post_init__(self) -> None:
        phases = len(self.curriculum.phases)
        if len(self.options.phase_targets) != phases:
            raise ConfigError(
                f"{WHERE}.phase_targets has {len(self.options.phase_targets)} targets for "
                f"{phases} phases of the curriculum"
            )
        plateaus = self.options.phase_plateaus
        if plateaus and len(plateaus) != phases:
            raise ConfigError(
                f"{WHERE}.phase_plateaus has {len(plateaus)} plateaus for {phases} phases"
            )
        for phase in self.options.ramp_phases:
            if not 1 <= phase <= phases:
                raise ConfigError(f"{WHERE}.ramp_phases: there is no phase {phase} of {phases}")

    @property
    def reads(self) -> tuple[str, ...]:
        """The gate's stage."""
        return () if self.limit is None else (self.limit.setting.name,)

    @property
    def writes(self) -> tuple[str, ...]:
        """The density penalty."""
        return (self.setting.name,)

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """The outermost values it may assign."""
        return tuple(self.setting.to(target) for target in self.options.phase_targets)

    def initial(self) -> LadderState:
        """Return the empty state."""
        return LadderState()

    def value_at(self, iteration: int, highest: int) -> float:
        """Return the penalty of an iteration, from 1, with phases up to `highest`, from 1."""
        number = self.curriculum.phase_at(iteration)
        if number > highest:
            value = self.options.phase_targets[highest - 1]
        else:
            value = self._in_phase(number, iteration)
        if iteration <= self.options.lock_until:
            value = min(value, self.options.lock_value)
        return value

    def _in_phase(self, number: int, iteration: int) -> float:
        targets = self.options.phase_targets
        target = targets[number - 1]
        if number not in self.options.ramp_phases:
            return target
        before = targets[number - 2] if number > 1 else self.options.before
        phase = self.curriculum.phases[number - 1]
        plateaus = self.options.phase_plateaus
        begin = phase.first + (plateaus[number - 1] if plateaus else 0)
        if iteration < begin:
            return before
        # The last iteration of the phase has exactly the target.
        length = phase.last - begin
        return between(before, target, (iteration - begin) / length if length > 0 else 1.0)

    def decide(self, state: LadderState, view: View) -> Decision[LadderState]:
        """Set the penalty of the next iteration."""
        iteration = view.progress.iteration + 1
        phases = len(self.curriculum.phases)
        highest = phases
        if self.limit is not None:
            highest = self.limit.highest(view.settings, top=phases - 1) + 1
        value = self.value_at(iteration, highest)
        if value == view.settings[self.setting]:
            return Decision(state)
        number = self.curriculum.phase_at(iteration)
        held = f", held at phase {highest} by the gate" if number > highest else ""
        return Decision(state, (self.setting.to(value),), f"phase {number}{held}")
