"""What can be said about bad starts in a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from longhaul.core.errors import ConfigError
from longhaul.tasks.fish.tail.files import Applied
from longhaul.tasks.fish.tail.laps import LapRules
from longhaul.tasks.fish.tail.stages import StageSpec, by_type, parse_stages, with_reinjections
from longhaul.tasks.fish.tail.warning import LowWarning


@dataclass(frozen=True, slots=True)
class TailOptions:
    """Bad starts that are dealt again in training."""

    stages: str = ""
    """Which starts when: `iterations:path|key=value;...` with the keys type, label and velocities
    (before or after); `-` for the path is a rest. Empty: none, or `path`."""
    path: str = ""
    """A file of starts that makes one stage of `iterations`, in place of `stages`."""
    iterations: int = 0
    """Length of that stage."""
    unit: Literal["iterations", "resets"] = "iterations"
    """What a stage's length is counted in: iterations, or as many resets as there are schools for
    each of them."""
    velocities: Applied = "after"
    """When a bare velocity is given to the predator: before its pre-roll, as the original did, or
    after it."""
    per_iteration: int = 0
    """Most bad starts dealt in an iteration; 0: every school that begins anew takes one."""
    force_reset_steps: int = 0
    """Cut episodes after so many steps, so that more starts are dealt; 0: never."""
    keep: str = ""
    """Types that stay present in the stages of all others, `type:share,...`."""
    min_reinjections: str = ""
    """How often a type must come back at least, `type:number,...`; its last stage is repeated at
    the end until it does."""
    decay: float = 1.0
    """Weight of a start after each replay, as a share of that before; below 1, fresh starts come
    first."""
    filter_window: int = 0
    """Replays in a row that must go badly before a start is set aside; 0: none is."""
    filter_lost: float = 0.5
    """Share of fish lost from which on a replay went badly."""
    filter_rest: int = 20
    """Iterations for which a start stays aside."""
    gate_spared: float = 0.25
    """Share of a stage's starts, the hardest, left out of the lap after the gate moved."""
    warn_ratio: float = 0.65
    """Warn when this share of all stages or less remains; 0: never."""
    warn_patience: int = 3
    """Iterations in a row before the warning."""

    def __post_init__(self) -> None:
        for name, value, low in (
            ("iterations", self.iterations, 0),
            ("per_iteration", self.per_iteration, 0),
            ("force_reset_steps", self.force_reset_steps, 0),
            ("warn_patience", self.warn_patience, 1),
        ):
            if value < low:
                raise ConfigError(f"options.tail.{name} = {value} must be at least {low}")
        if not self.warn_ratio <= 1:
            raise ConfigError(f"options.tail.warn_ratio = {self.warn_ratio} must be at most 1")
        if self.path and self.stages:
            raise ConfigError("options.tail has both stages and path; drop one of them")
        if bool(self.path) != bool(self.iterations):
            raise ConfigError("options.tail.path and options.tail.iterations go together")
        self.rules()
        self.specs()

    def rules(self) -> LapRules:
        """Return how starts are preferred, spared and set aside."""
        return LapRules(
            decay=self.decay,
            window=self.filter_window,
            lost=self.filter_lost,
            rest=self.filter_rest,
            spared=self.gate_spared,
        )

    def specs(self) -> tuple[StageSpec, ...]:
        """Return the stages, those that are repeated included; none without bad starts."""
        where = "options.tail.stages"
        text = self.stages
        if self.path:
            where, text = "options.tail.path", f"{self.iterations}:{self.path}"
        stages = parse_stages(text, where=where, applied=self.velocities)
        where = "options.tail.min_reinjections"
        return with_reinjections(stages, by_type(self.min_reinjections, where=where), where=where)

    def low_warning(self) -> LowWarning:
        """Return when to warn."""
        return LowWarning(self.warn_ratio, self.warn_patience)
