"""Configuration of what is made of a run for people to look at."""

from __future__ import annotations

from dataclasses import dataclass

from longhaul.core.errors import ConfigError

EPISODES = ("worst", "median", "best")


@dataclass(frozen=True, slots=True)
class ReportConfig:
    """What is left behind for people to look at."""

    at_end: bool = True
    """Write plots, a report and a notebook when training ends."""
    films: tuple[str, ...] = ("median", "worst")
    """Episodes of the final evaluation to film then: `worst`, `median`, `best`."""
    film_evaluations: int = 0
    """Film so many of the worst episodes of every evaluation during training; the flag
    `--capture-video` films one."""

    study: int = 6
    """For tasks that look into their policies: episodes of the final evaluation to play again for
    that when training ends; 0 leaves it out."""

    def __post_init__(self) -> None:
        if self.study < 0:
            raise ConfigError(f"report.study = {self.study} cannot be negative")
        if self.film_evaluations < 0:
            raise ConfigError(
                f"report.film_evaluations = {self.film_evaluations} cannot be negative"
            )
        for name in self.films:
            if name not in EPISODES:
                raise ConfigError(f"report.films holds {name!r}; there are {', '.join(EPISODES)}")
