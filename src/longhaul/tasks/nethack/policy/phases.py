"""The phases as a controller of the engine's schedule."""

from __future__ import annotations

from collections.abc import Iterator

from longhaul.core.errors import ConfigError
from longhaul.core.settings import Assignment
from longhaul.schedule.phases import Phase, Phases
from longhaul.tasks.nethack.policy.phase_options import PhaseOptions, Stretch
from longhaul.tasks.nethack.policy.settings import (
    ALIGNMENT,
    ALIGNMENT_TEMPERATURE,
    ALPHA_ENTROPY,
    DIVERSITY,
    ENTROPY_WEIGHT,
    LEARNING_RATE,
    LOAD_BALANCE,
    OVERLAP,
    ROUTER,
    SEMANTIC,
    TEMPERATURE,
    TEMPORAL,
)

NAME = "phases"
METRIC = f"curriculum/{NAME}_phase"


def build_phases(options: PhaseOptions, *, total: int = 0) -> Phases:
    """Return the controller; `total` is the run's length, needed along `run`."""
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
        along=options.along,
        total=total,
        scale=options.scale,
        only=options.only,
    )


def _check_easing(options: PhaseOptions, name: str, stretch: Stretch, following: float) -> None:
    if options.easing and following and options.easing >= following - stretch.start:
        raise ConfigError(
            f"options.phases.easing = {options.easing} is longer than the phase {name!r}"
        )


def _phase(options: PhaseOptions, name: str, stretch: Stretch, following: float) -> Phase:
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


def _eased(options: PhaseOptions, name: str, stretch: Stretch, following: float) -> Iterator[Phase]:
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


def _moves(stretch: Stretch) -> Iterator[Assignment]:
    """Yield where the phase ends with the two values that may move in it."""
    if stretch.last_temperature != stretch.temperature:
        yield TEMPERATURE.to(stretch.last_temperature)
    if stretch.last_pull != stretch.first_pull:
        yield ALPHA_ENTROPY.to(stretch.last_pull)


def _floats(options: PhaseOptions, stretch: Stretch) -> tuple[Assignment, ...]:
    return (
        TEMPERATURE.to(stretch.temperature),
        Assignment(LEARNING_RATE, stretch.learning_rate * options.learning_rate_factor),
        Assignment(ENTROPY_WEIGHT, stretch.entropy),
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
    return tuple(phase.name for phase in build_phases(options, total=1).phases)


def borders(options: PhaseOptions) -> tuple[tuple[str, float], ...]:
    """Return where each phase begins, as scaled."""
    phases = build_phases(options, total=1).phases
    return tuple((phase.name, phase.start * options.scale) for phase in phases)
