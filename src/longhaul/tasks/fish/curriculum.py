"""How many fish train when: `fish:iterations` phases, one after another."""

from __future__ import annotations

from dataclasses import dataclass

from longhaul.core.errors import ConfigError
from longhaul.core.settings import Setting
from longhaul.schedule.phases import Phase, Phases
from longhaul.tasks.fish.grammar import pairs, positive

WHERE = "options.training.curriculum"
FORM = "fish:iterations, as in 15:9,20:10"


@dataclass(frozen=True, slots=True)
class SchoolPhase:
    """A stretch of iterations with one number of fish; counted from 1, both ends included."""

    fish: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Curriculum:
    """The phases of a run."""

    phases: tuple[SchoolPhase, ...]

    @staticmethod
    def parse(text: str, *, fish: int, total_iterations: int) -> Curriculum:
        """Return the phases a text describes; an empty one is a single phase of `fish` fish.

        `total_iterations` of 0 means that the run's length is not counted in iterations; a text
        then has no sum to agree with, and its last phase goes on to the end.
        """
        found = pairs(text, positive, positive, where=WHERE, form=FORM)
        if not found:
            return Curriculum((SchoolPhase(fish, 1, max(total_iterations, 1)),))
        if not total_iterations:
            raise ConfigError(
                f"{WHERE} counts iterations, so that total_iterations must be set: "
                f"its phases add up to {sum(length for _, length in found)}"
            )
        phases, last = [], 0
        for number, length in found:
            phases.append(SchoolPhase(number, last + 1, last + length))
            last += length
        if last != total_iterations:
            raise ConfigError(
                f"{WHERE}: the phases add up to {last} iterations, "
                f"and total_iterations = {total_iterations}"
            )
        return Curriculum(tuple(phases))

    def phase_at(self, iteration: int) -> int:
        """Return the number of the phase, from 1, that an iteration, from 1, belongs to."""
        begun = sum(phase.first <= iteration for phase in self.phases)
        return max(begun, 1)

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
                Phase(f"{phase.fish} fish", phase.first - 1, (school_size.to(phase.fish),))
                for phase in self.phases
            ),
            along="iterations",
        )
