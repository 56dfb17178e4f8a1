"""Controllers that follow the iteration: school size, density penalty, boost and entropy."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean, median

from longhaul.core.control import Decision, NoState, Stateless, View, WritesOne
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Assignment, Setting
from longhaul.schedule.criterion import Limit
from longhaul.schedule.phases import Phase, Phases
from longhaul.schedule.ramp import between
from longhaul.tasks.fish.training.options import (
    BoostOptions,
    IterationWindow,
    LadderOptions,
    SchoolPhase,
)

CURRICULUM = "options.training.curriculum"
LADDER = "options.training.ladder"
ALL_FIRST_DEATHS = "env/first_death_p10"
LATER_FIRST_DEATHS = "env/first_later_death_p10"


@dataclass(frozen=True, slots=True)
class Curriculum:
    """The phases of a run."""

    phases: tuple[SchoolPhase, ...]

    @staticmethod
    def of(phases: tuple[SchoolPhase, ...], *, fish: int, total_iterations: int) -> Curriculum:
        """Return the phases of the options; without any, a single phase of `fish` fish.

        `total_iterations` of 0 means that the length of the run is not counted in iterations.
        """
        if not phases:
            return Curriculum((SchoolPhase(fish, max(total_iterations, 1)),))
        length = sum(phase.iterations for phase in phases)
        if not total_iterations:
            raise ConfigError(
                f"{CURRICULUM} counts iterations, so total_iterations must be set: "
                f"its phases add up to {length}"
            )
        if length != total_iterations:
            raise ConfigError(
                f"{CURRICULUM}: the phases add up to {length} iterations, "
                f"and total_iterations = {total_iterations}"
            )
        return Curriculum(phases)

    @property
    def lasts(self) -> tuple[int, ...]:
        """The last iteration of each phase, counted from 1."""
        return tuple(accumulate(phase.iterations for phase in self.phases))

    @property
    def firsts(self) -> tuple[int, ...]:
        """The first iteration of each phase, counted from 1."""
        return tuple(
            last - phase.iterations + 1 for last, phase in zip(self.lasts, self.phases, strict=True)
        )

    def phase_at(self, iteration: int) -> int:
        """Return the number of the phase, from 1, that an iteration, from 1, belongs to."""
        return max(sum(first <= iteration for first in self.firsts), 1)

    @property
    def most_fish(self) -> int:
        """The largest school of all phases."""
        return max(phase.fish for phase in self.phases)

    def controller(self, school_size: Setting[int]) -> Phases:
        """Return the controller that gives every phase its number of fish.

        It decides after an iteration for the next one, so a phase begins one iteration earlier.
        """
        return Phases(
            "curriculum",
            tuple(
                Phase(f"{phase.fish} fish", first - 1, (school_size.to(phase.fish),))
                for phase, first in zip(self.phases, self.firsts, strict=True)
            ),
            along="iterations",
        )


@dataclass(frozen=True, slots=True)
class PenaltyLadder(Stateless, WritesOne):
    """Give every phase its density penalty; the gate may hold it at an earlier phase."""

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
                f"{LADDER}.phase_targets has {len(self.options.phase_targets)} targets for "
                f"{phases} phases of the curriculum"
            )
        plateaus = self.options.phase_plateaus
        if plateaus and len(plateaus) != phases:
            raise ConfigError(
                f"{LADDER}.phase_plateaus has {len(plateaus)} plateaus for {phases} phases"
            )
        for phase in self.options.ramp_phases:
            if not 1 <= phase <= phases:
                raise ConfigError(f"{LADDER}.ramp_phases: there is no phase {phase} of {phases}")

    @property
    def reads(self) -> tuple[str, ...]:
        """The gate's stage."""
        return () if self.limit is None else (self.limit.setting.name,)

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """The outermost values it may assign."""
        return tuple(self.setting.to(target) for target in self.options.phase_targets)

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
        plateaus = self.options.phase_plateaus
        begin = self.curriculum.firsts[number - 1] + (plateaus[number - 1] if plateaus else 0)
        if iteration < begin:
            return before
        # The last iteration of the phase has exactly the target.
        length = self.curriculum.lasts[number - 1] - begin
        return between(before, target, (iteration - begin) / length if length > 0 else 1.0)

    def decide(self, state: NoState, view: View) -> Decision[NoState]:
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


@dataclass(frozen=True, slots=True)
class ValueWindows(Stateless):
    """Give a setting the value of the last window that holds, and its base outside of all."""

    name: str
    setting: str
    windows: tuple[IterationWindow, ...]
    base: float

    def __post_init__(self) -> None:
        if not self.windows:
            raise ConfigError(f"schedule.{self.name} has no windows")

    @property
    def writes(self) -> tuple[str, ...]:
        """The setting."""
        return (self.setting,)

    @property
    def follows(self) -> tuple[str, ...]:
        """The setting: outside of all windows it has its config value."""
        return (self.setting,)

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """All values it may assign."""
        values = {self.base, *(window.value for window in self.windows)}
        return tuple(Assignment(self.setting, value) for value in sorted(values))

    def value_at(self, iteration: int) -> float:
        """Return the value of an iteration, from 1."""
        held = [window.value for window in self.windows if window.holds(iteration)]
        return held[-1] if held else self.base

    def decide(self, state: NoState, view: View) -> Decision[NoState]:
        """Set the value of the next iteration."""
        iteration = view.progress.iteration + 1
        value = self.value_at(iteration)
        if view.settings.values()[self.setting] == value:
            return Decision(state)
        return Decision(state, (Assignment(self.setting, value),), f"iteration {iteration}")


@dataclass(frozen=True, slots=True)
class BoostState:
    """The first-death p10 of the last iterations, newest last."""

    recent: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class EscapeBoost(WritesOne):
    """Give every phase its boost, lowered while fish die early and while the penalty is high."""

    options: BoostOptions
    curriculum: Curriculum
    setting: Setting[float]
    penalty: Setting[float]
    stage: Setting[int] | None = None
    """The gate's stage."""
    name: str = "escape-boost"

    @property
    def metric(self) -> str:
        """What the adaptive part looks at."""
        return ALL_FIRST_DEATHS if self.options.counts_step_one else LATER_FIRST_DEATHS

    @property
    def reads(self) -> tuple[str, ...]:
        """The first deaths, the penalty and the gate's stage."""
        seen = (self.metric,) if self.options.adaptive else ()
        stage = () if self.stage is None else (self.stage.name,)
        return (*seen, self.penalty.name, *stage)

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """The outermost values it may assign."""
        options = self.options
        aims = (options.low_speed, options.high_speed) if options.adaptive else ()
        speeds = (self.setting.default, options.floor, *aims)
        tables = (
            options.phase_speeds,
            options.phase_floors,
            options.stage_floors,
            options.penalty_caps,
        )
        values = {*speeds, *(value for table in tables for _, value in table)}
        return tuple(self.setting.to(value) for value in sorted(values))

    def initial(self) -> BoostState:
        """Return the state before the first measurement."""
        return BoostState()

    def value_at(
        self, iteration: int, *, penalty: float, stage: int = 0, recent: tuple[float, ...] = ()
    ) -> float:
        """Return the boost of an iteration, from 1."""
        options, phase = self.options, self.curriculum.phase_at(iteration)
        floor = dict(options.phase_floors).get(phase, options.floor)
        value = max(dict(options.phase_speeds).get(phase, self.setting.default), floor)
        aim = self._aim(iteration, recent)
        if aim is not None:
            value = max(min(value, aim), floor, dict(options.stage_floors).get(stage, 0.0))
        caps = [cap for threshold, cap in options.penalty_caps if penalty >= threshold]
        return min([value, *caps])

    def _aim(self, iteration: int, recent: tuple[float, ...]) -> float | None:
        options = self.options
        if not (options.adaptive and recent) or iteration < options.min_iteration:
            return None
        middle = fmean(recent) if options.use_mean else median(recent)
        if middle < options.lower_p10:
            return options.low_speed
        return options.high_speed if middle > options.upper_p10 else None

    def decide(self, state: BoostState, view: View) -> Decision[BoostState]:
        """Set the boost of the next iteration."""
        recent = state.recent
        if self.options.adaptive and self.metric in view.metrics:
            recent = (*recent, view.metrics[self.metric])[-self.options.window :]
        iteration = view.progress.iteration + 1
        penalty = view.settings[self.penalty]
        stage = 0 if self.stage is None else view.settings[self.stage]
        value = self.value_at(iteration, penalty=penalty, stage=stage, recent=recent)
        state = BoostState(recent)
        if value == view.settings[self.setting]:
            return Decision(state)
        why = f"phase {self.curriculum.phase_at(iteration)}, density penalty {penalty:g}"
        if recent:
            why += f", first deaths at {median(recent):g}"
        return Decision(state, (self.setting.to(value),), why)
