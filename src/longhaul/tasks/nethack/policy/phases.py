"""The phases: the table of coefficients that hold when, and the controller that sets them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, assert_never

from longhaul.core.config import ABOVE_0, AT_LEAST_0, check_ranges
from longhaul.core.control import RunLength
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Assignment
from longhaul.schedule.phases import Phase, Phases
from longhaul.schedule.ramp import Axis, share_axis
from longhaul.tasks.nethack.policy.options import (
    ALIGNMENT,
    ALIGNMENT_TEMPERATURE,
    ALPHA_ENTROPY,
    DIVERSITY,
    ENT_COEF,
    LEARNING_RATE,
    LOAD_BALANCE,
    OVERLAP,
    ROUTER,
    SEMANTIC,
    TEMPERATURE,
    TEMPORAL,
    RouterKind,
)

Mode = Literal["table", "baseline", "manager", "full", "legacy"]
Fourth = Literal["none", "deep", "aggressive", "extended"]
KEEP = -1.0
"""Stands for an end that is the same as the beginning."""


@dataclass(frozen=True, slots=True)
class PhaseCoefficients:
    """One phase: where it begins and the coefficients that hold in it."""

    start: float = 0.0
    """Where the phase begins, along the axis of the phases."""
    router: RouterKind = "softmax"
    """How weights are made of the router's logits."""
    temperature: float = 1.0
    """The router's temperature as the phase begins."""
    temperature_end: float = KEEP
    """The temperature as the phase ends, reached in a straight line; -1 keeps it."""
    learning_rate: float = 1e-4
    """The learner's step size."""
    entropy: float = 0.05
    """Weight of the entropy of actions."""
    alpha_entropy: float = 0.1
    """Weight of the entropy of the experts' weights as the phase begins."""
    alpha_entropy_end: float = KEEP
    """That weight as the phase ends, reached in a straight line; -1 keeps it."""
    alpha_entropy_sign: Literal[-1, 1] = -1
    """-1 maximizes that entropy, 1 minimizes it."""
    load_balance: float = 0.02
    """Weight of unequal use of experts."""
    diversity: float = 0.01
    """Weight of the experts' mean likeness."""
    alignment: float = 0.1
    """Weight of the distance from what the rules recommend."""
    alignment_temperature: float = 1.0
    """Temperature of what the rules recommend."""
    semantic: float = 0.05
    """Weight of the experts' absolute likeness."""
    temporal: float = 0.0
    """Weight of changes of the experts' weights from step to step."""
    overlap: float = 0.0
    """Weight of alike experts that act together."""

    def __post_init__(self) -> None:
        if self.start < 0:
            raise ConfigError(f"a phase cannot start at {self.start}; 0 is the run's beginning")
        if self.temperature <= 0 or (self.temperature_end != KEEP and self.temperature_end <= 0):
            raise ConfigError(
                f"a phase's temperature = {self.temperature}, temperature_end = "
                f"{self.temperature_end} must be above 0"
            )

    @property
    def last_temperature(self) -> float:
        """The temperature as the phase ends."""
        return self.temperature if self.temperature_end == KEEP else self.temperature_end

    @property
    def first_pull(self) -> float:
        """The signed weight of the experts' entropy as the phase begins."""
        return self.alpha_entropy_sign * self.alpha_entropy

    @property
    def last_pull(self) -> float:
        """The signed weight of the experts' entropy as the phase ends."""
        end = self.alpha_entropy if self.alpha_entropy_end == KEEP else self.alpha_entropy_end
        return self.alpha_entropy_sign * end


WARM_UP = PhaseCoefficients()
TRANSITION = PhaseCoefficients(
    start=1000,
    router="sparsemax",
    temperature_end=0.5,
    learning_rate=5e-5,
    entropy=0.02,
    alpha_entropy_end=0.0,
    load_balance=0.01,
    temporal=0.01,
    overlap=0.03,
)
FINE_TUNE = PhaseCoefficients(
    start=3000,
    router="sparsemax",
    temperature=0.5,
    learning_rate=1e-5,
    entropy=0.01,
    alpha_entropy=0.05,
    alpha_entropy_sign=1,
    load_balance=0.005,
    diversity=0.005,
    temporal=0.02,
    overlap=0.05,
)
FOURTH_START = 5000.0
FOURTH_ENDS = {"deep": 7000.0, "aggressive": 6000.0, "extended": 8000.0}


FOURTH: Mapping[str, Mapping[str, float]] = {
    "deep": {
        "temperature_end": 0.2, "learning_rate": 5e-5, "entropy": 0.005, "alpha_entropy": 0.1,
    },
    "aggressive": {
        "temperature_end": 0.1, "learning_rate": 1e-4, "entropy": 0.001, "alpha_entropy": 0.2,
        "load_balance": 0.001, "diversity": 0.001,
    },
    "extended": {},
}  # fmt: skip
"""What a phase after fine-tuning changes of it."""
BARE: Mapping[str, Any] = dict.fromkeys(("alignment", "semantic", "temporal", "overlap"), 0.0)
"""The losses that the modes without rules leave out."""


@dataclass(frozen=True, slots=True)
class PhaseOptions:
    """Warm-up, transition and fine-tuning, and what of them an ablation leaves out."""

    mode: Mode = "table"
    """`table` follows the phases as they are written. `baseline` leaves out alignment, semantic,
    temporal and overlap losses and never penalizes entropy; `manager` has alignment and semantic
    losses, and from the transition on the other two at its values; `full` also penalizes entropy in
    fine-tuning; `legacy` is `baseline` with the entropy's weight at 0.05 from the transition on."""
    along: Axis = "episodes"
    """What the phases are counted in: episodes, env_steps, iterations, or shares of the run, which
    are of `total_episodes` if that is its length."""
    scale: float = 1.0
    """Multiplies every start: a short run then has all phases."""
    only: str = ""
    """The name of a phase to stay in: warm-up, transition, fine-tune, or a fourth one."""
    easing: float = 0.0
    """Length over which values change linearly at the border of two phases; 0: at once."""
    learning_rate_factor: float = 1.0
    """Multiplies the learning rate of every phase."""
    fourth: Fourth = "none"
    """A phase after fine-tuning."""
    warm_up: PhaseCoefficients = WARM_UP
    """The first phase."""
    transition: PhaseCoefficients = TRANSITION
    """The second phase."""
    fine_tune: PhaseCoefficients = FINE_TUNE
    """The third phase."""

    def __post_init__(self) -> None:
        ranges = {AT_LEAST_0: "easing", ABOVE_0: "learning_rate_factor"}
        check_ranges(self, "options.phases", ranges)
        if self.warm_up.start != 0:
            raise ConfigError("options.phases.warm_up.start must be 0: a run begins with it")

    def stretches(self) -> dict[str, PhaseCoefficients]:
        """Return the phases by name, as the mode has them."""
        found = {
            "warm-up": self.warm_up,
            "transition": self.transition,
            "fine-tune": self.fine_tune,
        }
        if self.fourth != "none":
            changes: dict[str, Any] = {"start": FOURTH_START, **FOURTH[self.fourth]}
            found[self.fourth] = replace(self.fine_tune, **changes)
        return {name: self._in_mode(name, stretch) for name, stretch in found.items()}

    def end(self) -> float:
        """Return where the last phase stops moving; only a fourth one moves."""
        return FOURTH_ENDS.get(self.fourth, 0.0)

    def _in_mode(self, name: str, stretch: PhaseCoefficients) -> PhaseCoefficients:
        later = name not in ("warm-up", "transition")
        match self.mode:
            case "table":
                return stretch
            case "baseline" | "legacy":
                bare = replace(stretch, **BARE, alpha_entropy_sign=-1)
                if self.mode == "legacy" and name != "warm-up":
                    return replace(bare, alpha_entropy=0.05, alpha_entropy_end=KEEP)
                return bare
            case "manager" | "full":
                penalizes = self.mode == "full" and later
                return replace(
                    stretch,
                    temporal=min(stretch.temporal, self.transition.temporal),
                    overlap=min(stretch.overlap, self.transition.overlap),
                    alpha_entropy_sign=1 if penalizes else -1,
                )
            case _:
                assert_never(self.mode)


NAME = "phases"
METRIC = f"curriculum/{NAME}_phase"


def build_phases(options: PhaseOptions, run: RunLength) -> Phases:
    """Return the controller; shares of the run are of its length in steps or episodes."""
    stretches = options.stretches()
    last = options.end()
    phases: list[Phase] = []
    names = list(stretches)
    for number, (name, stretch) in enumerate(stretches.items()):
        following = stretches[names[number + 1]].start if number + 1 < len(names) else last
        _check_easing(options, name, stretch, following)
        if number and options.easing:
            phases.extend(_eased(options, name, stretch, following))
        else:
            phases.append(_phase(options, name, stretch, following))
    return Phases(
        NAME,
        tuple(phases),
        along=share_axis(run) if options.along == "run" else options.along,
        total=run.total,
        scale=options.scale,
        only=options.only,
    )


def _check_easing(
    options: PhaseOptions, name: str, stretch: PhaseCoefficients, following: float
) -> None:
    if options.easing and following and options.easing >= following - stretch.start:
        raise ConfigError(
            f"options.phases.easing = {options.easing} is longer than the phase {name!r}"
        )


def _phase(options: PhaseOptions, name: str, stretch: PhaseCoefficients, following: float) -> Phase:
    """Return a phase that takes its values at once."""
    move = tuple(_moves(stretch))
    length = following - stretch.start if move else 0.0
    return Phase(
        name,
        stretch.start,
        assign=(ROUTER.to(stretch.router), *_floats(options, stretch)),
        move=move,
        over=length,
    )


def _eased(
    options: PhaseOptions, name: str, stretch: PhaseCoefficients, following: float
) -> Iterator[Phase]:
    """Yield two phases: one in which values drift to where they belong, and the rest."""
    eased = stretch.start + options.easing
    length = following - stretch.start if following else 0.0
    share = options.easing / length if length else 1.0
    there = {
        TEMPERATURE.name: _on_line(stretch.temperature, stretch.last_temperature, share),
        ALPHA_ENTROPY.name: _on_line(stretch.first_pull, stretch.last_pull, share),
    }
    drift = tuple(
        Assignment(one.name, there.get(one.name, one.value)) for one in _floats(options, stretch)
    )
    yield Phase(
        f"{name} begins",
        stretch.start,
        assign=(ROUTER.to(stretch.router),),
        move=drift,
        over=options.easing,
    )
    move = tuple(_moves(stretch))
    yield Phase(name, eased, move=move, over=following - eased if move else 0.0)


def _on_line(start: float, end: float, share: float) -> float:
    return start + (end - start) * share


def _moves(stretch: PhaseCoefficients) -> Iterator[Assignment]:
    """Yield where the phase ends with the two values that may move in it."""
    if stretch.last_temperature != stretch.temperature:
        yield TEMPERATURE.to(stretch.last_temperature)
    if stretch.last_pull != stretch.first_pull:
        yield ALPHA_ENTROPY.to(stretch.last_pull)


def _floats(options: PhaseOptions, stretch: PhaseCoefficients) -> tuple[Assignment, ...]:
    return (
        TEMPERATURE.to(stretch.temperature),
        Assignment(LEARNING_RATE, stretch.learning_rate * options.learning_rate_factor),
        Assignment(ENT_COEF, stretch.entropy),
        ALPHA_ENTROPY.to(stretch.first_pull),
        LOAD_BALANCE.to(stretch.load_balance),
        DIVERSITY.to(stretch.diversity),
        ALIGNMENT.to(stretch.alignment),
        ALIGNMENT_TEMPERATURE.to(stretch.alignment_temperature),
        SEMANTIC.to(stretch.semantic),
        TEMPORAL.to(stretch.temporal),
        OVERLAP.to(stretch.overlap),
    )


def phase_names(options: PhaseOptions) -> tuple[str, ...]:
    """Return the names of the phases in the order of their numbers, from 1."""
    return tuple(phase.name for phase in build_phases(options, RunLength(1)).phases)
