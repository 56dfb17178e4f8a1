"""What can be said in a configuration about how a run changes: curriculum, penalty, boost, gate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from longhaul.core.errors import ConfigError


def _demand(where: str, name: str, value: float, *, low: float) -> None:
    if not value >= low:
        raise ConfigError(f"{where}.{name} = {value} must be at least {low:g}")


@dataclass(frozen=True, slots=True)
class LadderOptions:
    """The density penalty, phase by phase."""

    before: float = 0.0
    """The penalty before phase 1, from which a ramp in it would begin."""
    phase_targets: tuple[float, ...] = ()
    """One penalty per phase of the curriculum; empty: it stays as `reward.density_penalty` says."""
    ramp_phases: tuple[int, ...] = ()
    """Phases, from 1, that climb from the target before in a straight line; others jump."""
    phase_plateaus: tuple[int, ...] = ()
    """Iterations for which a ramp phase waits first; one per phase, or empty."""
    lock_value: float = 0.0
    """The most the penalty may be up to the iteration `lock_until`."""
    lock_until: int = 0
    """The last iteration with that cap; 0: no cap. A gate without a lock of its own takes this."""

    def __post_init__(self) -> None:
        where = "options.training.ladder"
        for target in self.phase_targets:
            _demand(where, "phase_targets", target, low=0)
        for plateau in self.phase_plateaus:
            _demand(where, "phase_plateaus", plateau, low=0)
        for name, value in (
            ("before", self.before),
            ("lock_value", self.lock_value),
            ("lock_until", self.lock_until),
        ):
            _demand(where, name, value, low=0)


@dataclass(frozen=True, slots=True)
class BoostOptions:
    """The speed fish start with, phase by phase; suites always have their own."""

    phase_speeds: str = ""
    """Speeds of single phases, `phase:speed,...`; others have `start.escape_boost_speed`."""
    phase_floors: str = ""
    """The least of single phases, `phase:speed,...`; others have `floor`."""
    floor: float = 0.0
    """The least the boost may be."""
    penalty_caps: str = ""
    """`penalty:most,...`: while the density penalty is at least that, the boost is at most this."""
    adaptive: bool = False
    """Lower the boost towards `low_speed` or `high_speed` by how early training fish die."""
    window: int = 4
    """adaptive: iterations that are looked at."""
    use_mean: bool = False
    """adaptive: take their mean instead of their median."""
    min_iteration: int = 12
    """adaptive: the first iteration to act in."""
    lower_p10: float = 12.0
    """adaptive: below this first-death p10 aim at `low_speed`."""
    upper_p10: float = 18.0
    """adaptive: above this aim at `high_speed`."""
    low_speed: float = 0.76
    """adaptive: the speed of hard times."""
    high_speed: float = 0.8
    """adaptive: the speed of easy times."""
    stage_floors: str = ""
    """The least at the gate's stages, `stage:speed,...`, stages from 0."""
    counts_step_one: bool = False
    """adaptive: look at all first deaths, as the original did. A third of all schools lose a
    doomed fish in the first step, so that the p10 of those is 1 whatever the fish learn."""

    def __post_init__(self) -> None:
        _demand("options.training.boost", "window", self.window, low=1)


@dataclass(frozen=True, slots=True)
class GateOptions:
    """How far up the penalty's ladder a run may climb, judged after every evaluation."""

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
    """At most so many of them."""
    success_step_one_ratio: float = 0.0
    """At most this share of all fish; 0: does not count."""
    success_early_death: float = 0.10
    """At most this share dead before step 100."""
    success_early_death_window: int = 2
    """Above 1: the median of so many evaluations must pass as well."""
    success_p10: float = 120.0
    """The median of p10 must be at least this; 0 or less: does not count."""
    success_median_window: int = 4
    """Evaluations of that median."""
    failure_p10: float = 95.0
    """A p10 below this is a failure."""
    failure_min_final: float = 0.5
    """A worst episode with fewer survivors is a failure."""
    failure_tolerance: int = 2
    """Failures in a row after which the stage falls by one."""
    success_early_death_by_stage: str = ""
    """Other limits while a tail stage of a type is on: `type:value,...`; so with all of these."""
    success_early_death_window_by_stage: str = ""
    """Other windows of the early deaths, over the evaluations of that type."""
    failure_tolerance_by_stage: str = ""
    """Other tolerances."""
    success_first_death_p10_by_stage: str = ""
    """Other limits of p10."""
    success_p10_median_window_by_stage: str = ""
    """Other windows of p10's median; until they are full, that over all types counts."""
    success_step_one_by_stage: str = ""
    """Other limits of the deaths in the first step."""
    success_step_one_ratio_by_stage: str = ""
    """Other limits of their share."""
    alarm_after: int = 3
    """Tell of a gate that made no progress for more than so many evaluations."""
    infeasible: Literal["refuse", "warn"] = "refuse"
    """What to do with a gate that can never open: refuse to train, or say so and train."""

    @property
    def is_on(self) -> bool:
        """Whether there is a gate at all."""
        return bool(self.phase_allowance) and self.required_successes > 0


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """How a run changes while it goes on."""

    curriculum: str = ""
    """`fish:iterations,...`: how many fish train for how long; the iterations must add up to
    `total_iterations`. Empty: `fish` fish all the time."""
    entropy_windows: str = ""
    """Entropy weights in windows of iterations, `a-b:value`, `a:value` or `a+:value`, by commas;
    later ones win, and outside of all `learn.ent_coef` holds."""
    ladder: LadderOptions = field(default_factory=LadderOptions)
    """The density penalty, phase by phase."""
    boost: BoostOptions = field(default_factory=BoostOptions)
    """The speed fish start with, phase by phase."""
    gate: GateOptions = field(default_factory=GateOptions)
    """How far up the penalty's ladder the run may climb."""


K = TypeVar("K")
V = TypeVar("V")


def parts(text: str) -> Iterator[str]:
    """Yield what stands between the commas; nothing for an empty text."""
    if text.strip():
        yield from (part.strip() for part in text.split(","))


def pairs(
    text: str, key: Callable[[str], K], value: Callable[[str], V], *, where: str, form: str
) -> tuple[tuple[K, V], ...]:
    """Return `key:value` pairs in order; `form` tells the user how they are written."""
    found = []
    for part in parts(text):
        before, colon, after = part.partition(":")
        if not colon:
            raise ConfigError(f"{where}: {part!r} has no colon; write {form}")
        try:
            found.append((key(before.strip()), value(after.strip())))
        except ValueError as error:
            raise ConfigError(f"{where}: {part!r}: {error}; write {form}") from None
    return tuple(found)


def table(
    text: str, key: Callable[[str], K], value: Callable[[str], V], *, where: str, form: str
) -> dict[K, V]:
    """Return `key:value` pairs as a table; a key may stand there once."""
    found: dict[K, V] = {}
    for name, held in pairs(text, key, value, where=where, form=form):
        if name in found:
            raise ConfigError(f"{where}: {name!r} stands there twice")
        found[name] = held
    return found


def positive(text: str) -> int:
    """Return a whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise ValueError(f"{number} is not at least 1")
    return number


def count(text: str) -> int:
    """Return a whole number of at least 0."""
    number = int(text)
    if number < 0:
        raise ValueError(f"{number} is below 0")
    return number


def number(text: str) -> float:
    """Return a finite number."""
    found = float(text)
    if not abs(found) < float("inf"):
        raise ValueError(f"{text} is not finite")
    return found


def word(text: str) -> str:
    """Return a name in small letters; an empty one is refused."""
    if not text:
        raise ValueError("the name is empty")
    return text.lower()
