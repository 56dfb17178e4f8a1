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

    film_closely: int = 0
    """Steps of an episode that are filmed one by one; what comes after them is shown four times as
    fast. 0 shows the whole episode alike."""

    snapshots: int = 0
    """Checkpoints spread over the run to show side by side when training ends, each with the same
    moment of the same episode; 0 leaves it out. `checkpoint.keep_spread` keeps them."""
    snapshot_step: int = 100
    """The step of the episode at which they are shown."""
    snapshot_seed: int = 42
    """The seed of that episode."""

    study: int = 6
    """For tasks that look into their policies: episodes of the final evaluation to play again for
    that when training ends; 0 leaves it out."""

    def __post_init__(self) -> None:
        for name, value in (
            ("study", self.study),
            ("film_evaluations", self.film_evaluations),
            ("film_closely", self.film_closely),
            ("snapshots", self.snapshots),
            ("snapshot_step", self.snapshot_step),
            ("snapshot_seed", self.snapshot_seed),
        ):
            if value < 0:
                raise ConfigError(f"report.{name} = {value} cannot be negative")
        for name in self.films:
            if name not in EPISODES:
                raise ConfigError(f"report.films holds {name!r}; there are {', '.join(EPISODES)}")
