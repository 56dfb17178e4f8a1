"""What changes by itself while a run goes on, in a configuration."""

from __future__ import annotations

from dataclasses import dataclass, field

from longhaul.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class HelpOptions:
    """When episodes begin with the script of the options; forced steps train nothing."""

    first_iterations: int = 0
    """The script is used in the first so many iterations."""
    bootstrap_after: int = 0
    """The script is used from this iteration on if no episode has won ground yet; 0: never."""
    patience: int = 0
    """The script is used after so many iterations in a row in which no episode won ground; 0:
    never."""
    plateau_after: int = 0
    """From this iteration on, the script is used when the farthest progress has not grown; 0:
    never."""
    plateau_window: int = 50
    """Iterations over which the farthest progress must have grown."""
    plateau_rest: int = 100
    """Iterations after such a time before the next one may begin."""
    iterations: int = 10
    """How long the script is then used."""
    share: float = 1.0
    """Share of the episodes that then begin with it."""

    def __post_init__(self) -> None:
        for name, value, least in (
            ("first_iterations", self.first_iterations, 0),
            ("bootstrap_after", self.bootstrap_after, 0),
            ("patience", self.patience, 0),
            ("plateau_after", self.plateau_after, 0),
            ("plateau_window", self.plateau_window, 1),
            ("plateau_rest", self.plateau_rest, 0),
            ("iterations", self.iterations, 1),
        ):
            if value < least:
                raise ConfigError(
                    f"options.schedule.help.{name} = {value} must be at least {least}"
                )
        if not 0 < self.share <= 1:
            raise ConfigError(
                f"options.schedule.help.share = {self.share} must be above 0 and at most 1"
            )

    @property
    def is_on(self) -> bool:
        """Whether anything ever asks for the script."""
        return bool(
            self.first_iterations or self.bootstrap_after or self.patience or self.plateau_after
        )


@dataclass(frozen=True, slots=True)
class StageOptions:
    """Which of the stages are played, and how often."""

    order: str = "drawn"
    """`drawn`: all stages of the options, by their weights. `curriculum`: one after another, the
    next one joins when the newest is cleared often enough."""
    threshold: float = 0.6
    """Clear rate, over recent training episodes, at which the next stage joins."""
    old_weight: float = 0.25
    """How often a stage that was passed is drawn, compared with the newest."""

    def __post_init__(self) -> None:
        if self.order not in ("drawn", "curriculum"):
            raise ConfigError(
                f"options.schedule.stages.order = {self.order!r} is neither 'drawn' nor "
                "'curriculum'"
            )
        if not (0 < self.threshold <= 1 and 0 <= self.old_weight <= 1):
            raise ConfigError(
                "options.schedule.stages.threshold must be above 0 and at most 1, old_weight "
                f"between 0 and 1, not {self.threshold} and {self.old_weight}"
            )


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """What changes by itself; `[[schedule]]` tables steer everything else."""

    help: HelpOptions = field(default_factory=HelpOptions)
    """When episodes begin with the script."""
    stages: StageOptions = field(default_factory=StageOptions)
    """Which stages are played."""
