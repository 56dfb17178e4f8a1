"""Options of what changes during a run: curriculum, penalty, boost, gate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, TypeVar

from longhaul.core.errors import ConfigError

V = TypeVar("V")


def demand(where: str, low: float, **values: float) -> None:
    """Refuse values below `low`, by their names in the table `where`."""
    for name, value in values.items():
        if not value >= low:
            raise ConfigError(f"{where}.{name} = {value} must be at least {low:g}")


def _demand_pairs(where: str, name: str, pairs: Iterable[tuple[float, float]], low: float) -> None:
    """Refuse a key below `low`, a duplicate key, and a value that is not finite."""
    seen: set[float] = set()
    for key, value in pairs:
        demand(where, low, **{name: key})
        if key in seen:
            raise ConfigError(f"{where}.{name}: duplicate entry {key:g}")
        if not math.isfinite(value):
            raise ConfigError(f"{where}.{name}: the value of {key:g} must be finite, not {value}")
        seen.add(key)


def lowered(by_type: Mapping[str, V]) -> dict[str, V]:
    """Return values by the type of a tail stage; the case of a type does not matter."""
    found = {stage_type.lower(): value for stage_type, value in by_type.items()}
    if len(found) != len(by_type):
        raise ConfigError(f"duplicate entry in {sorted(by_type)}; the case does not matter")
    return found


@dataclass(frozen=True, slots=True)
class LadderOptions:
    """The density penalty, phase by phase."""

    before: float = 0.0
    """The penalty before phase 1, where a ramp in phase 1 begins."""
    phase_targets: tuple[float, ...] = ()
    """One penalty per phase of the curriculum; empty: it stays as `reward.density_penalty` says."""
    ramp_phases: tuple[int, ...] = ()
    """Phases, from 1, that rise linearly from the previous target; others jump."""
    phase_plateaus: tuple[int, ...] = ()
    """Iterations before the rise of a ramp phase; one per phase, or empty."""
    lock_value: float = 0.0
    """Highest penalty up to the iteration `lock_until`."""
    lock_until: int = 0
    """The last iteration with that cap; 0: no cap. It is also the default of the gate's lock."""

    def __post_init__(self) -> None:
        where = "options.training.ladder"
        demand(where, 0, before=self.before, lock_value=self.lock_value, lock_until=self.lock_until)
        demand(where, 0, phase_targets=min(self.phase_targets, default=0))
        demand(where, 0, phase_plateaus=min(self.phase_plateaus, default=0))


@dataclass(frozen=True, slots=True)
class BoostOptions:
    """The speed fish start with, phase by phase; suites always have their own."""

    phase_speeds: tuple[tuple[int, float], ...] = ()
    """Speeds of single phases, `[[phase, speed], ...]`; others have `start.escape_boost_speed`."""
    phase_floors: tuple[tuple[int, float], ...] = ()
    """Lowest boost of single phases, `[[phase, speed], ...]`; others have `floor`."""
    floor: float = 0.0
    """Lowest boost."""
    penalty_caps: tuple[tuple[float, float], ...] = ()
    """`[[penalty, cap], ...]`: while the density penalty is at least `penalty`, the boost is at
    most `cap`."""
    adaptive: bool = False
    """Lower the boost towards `low_speed` or `high_speed` by how early training fish die."""
    window: int = 4
    """adaptive: iterations to average over."""
    use_mean: bool = False
    """adaptive: use their mean instead of their median."""
    min_iteration: int = 12
    """adaptive: the first iteration to act in."""
    lower_p10: float = 12.0
    """adaptive: below this first-death p10 aim at `low_speed`."""
    upper_p10: float = 18.0
    """adaptive: above this aim at `high_speed`."""
    low_speed: float = 0.76
    """adaptive: the target while fish die early."""
    high_speed: float = 0.8
    """adaptive: the target while fish die late."""
    stage_floors: tuple[tuple[int, float], ...] = ()
    """Lowest boost at the gate's stages, `[[stage, speed], ...]`, stages from 0."""
    counts_step_one: bool = False
    """adaptive: use all first deaths, as the original did. A third of all schools lose a doomed
    fish in the first step, so the p10 of those is 1 whatever the fish learn."""

    def __post_init__(self) -> None:
        where = "options.training.boost"
        demand(where, 1, window=self.window)
        _demand_pairs(where, "phase_speeds", self.phase_speeds, low=1)
        _demand_pairs(where, "phase_floors", self.phase_floors, low=1)
        _demand_pairs(where, "stage_floors", self.stage_floors, low=0)
        _demand_pairs(where, "penalty_caps", self.penalty_caps, low=0)


@dataclass(frozen=True, slots=True)
class GateOptions:
    """The highest phase of the penalty's ladder in use, decided after every evaluation."""

    phase_allowance: tuple[int, ...] = ()
    """The highest phase, from 1, of the gate's stages 0, 1, 2, ...; empty: no gate."""
    required_successes: int = 1
    """Successes in a row for the next stage; 0: no gate."""
    lock_iteration: int = -1
    """No progress up to this iteration; 0 or less: `ladder.lock_until`."""
    freeze_iterations: int = 4
    """Iterations without progress after a failure, a fall or a climb."""
    success_freeze_iterations: int = 1
    """Iterations without progress after a success that did not climb."""
    step_one: Literal["excess", "all"] = "excess"
    """Which deaths of the first step count: those beyond the unavoidable ones, or all."""
    success_step_one: int = 7
    """Most such deaths."""
    success_step_one_ratio: float = 0.0
    """Largest share of all fish; 0: not a criterion."""
    success_early_death: float = 0.10
    """Largest share of fish dead before step 100."""
    success_early_death_window: int = 2
    """Above 1: the median of this many evaluations must pass as well."""
    success_p10: float = 120.0
    """Lowest median of p10; 0 or less: not a criterion."""
    success_median_window: int = 4
    """Evaluations of that median."""
    failure_p10: float = 95.0
    """A p10 below this is a failure."""
    failure_min_final: float = 0.5
    """A worst episode with fewer survivors is a failure."""
    failure_tolerance: int = 2
    """Failures in a row after which the stage falls by one."""
    success_early_death_by_stage: Mapping[str, float] = field(default_factory=dict)
    """Limits of early deaths by the type of the current tail stage, `{type = value}`, in place of
    `success_early_death`. The keys below have the same form."""
    success_early_death_window_by_stage: Mapping[str, int] = field(default_factory=dict)
    """Windows of the early deaths, over the evaluations of that type."""
    failure_tolerance_by_stage: Mapping[str, int] = field(default_factory=dict)
    """Failures in a row after which the stage falls."""
    success_first_death_p10_by_stage: Mapping[str, float] = field(default_factory=dict)
    """Limits of p10."""
    success_p10_median_window_by_stage: Mapping[str, int] = field(default_factory=dict)
    """Windows of p10's median; until one is full, the median over all types counts."""
    success_step_one_by_stage: Mapping[str, int] = field(default_factory=dict)
    """Limits of the deaths in the first step."""
    success_step_one_ratio_by_stage: Mapping[str, float] = field(default_factory=dict)
    """Limits of their share."""
    alarm_after: int = 3
    """Warn about a gate that made no progress for more than this many evaluations."""
    infeasible: Literal["refuse", "warn"] = "refuse"
    """What to do with a gate that can never open: refuse to train, or warn and train."""

    def __post_init__(self) -> None:
        for name in (one.name for one in fields(self) if one.name.endswith("_by_stage")):
            low = 1 if "window" in name or "tolerance" in name else 0
            demand(f"options.training.gate.{name}", low, **getattr(self, name))

    @property
    def is_on(self) -> bool:
        """Whether there is a gate at all."""
        return bool(self.phase_allowance) and self.required_successes > 0


@dataclass(frozen=True, slots=True)
class SchoolPhase:
    """A phase of the curriculum."""

    fish: int
    """Fish of a school."""
    iterations: int
    """Length of the phase."""

    def __post_init__(self) -> None:
        demand("options.training.curriculum", 1, fish=self.fish, iterations=self.iterations)


@dataclass(frozen=True, slots=True)
class IterationWindow:
    """Iterations `first` to `last`, both included and counted from 1, with the value in them."""

    first: int
    """The first iteration."""
    value: float
    """The value in the window."""
    last: int = 0
    """The last iteration; 0: until the end of the run."""

    def __post_init__(self) -> None:
        where = "options.training.entropy_windows"
        demand(where, 1, first=self.first)
        demand(where, self.first, last=self.last or self.first)
        if not math.isfinite(self.value):
            raise ConfigError(f"{where}.value must be finite, not {self.value}")

    def holds(self, iteration: int) -> bool:
        """Whether an iteration, from 1, lies in the window."""
        return self.first <= iteration <= (self.last or iteration)


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """What changes during a run."""

    curriculum: tuple[SchoolPhase, ...] = ()
    """Phases with their numbers of fish, `[{fish = 15, iterations = 10}, ...]`; the iterations
    must add up to `total_iterations`. Empty: `fish` fish all the time."""
    entropy_windows: tuple[IterationWindow, ...] = ()
    """Entropy coefficients in windows of iterations, `[{first = 10, last = 20, value = 0.01},
    ...]`; without `last`, until the end. Of windows that overlap the last one counts. Outside of
    all windows `learn.ent_coef` holds."""
    ladder: LadderOptions = field(default_factory=LadderOptions)
    """The density penalty, phase by phase."""
    boost: BoostOptions = field(default_factory=BoostOptions)
    """The speed fish start with, phase by phase."""
    gate: GateOptions = field(default_factory=GateOptions)
    """The highest phase of the penalty's ladder in use."""
