"""The weights of the reward's terms, in a configuration and as settings of a run."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from longhaul.core.errors import ConfigError
from longhaul.core.settings import Setting

PREFIX = "reward."

MEANINGS = {
    "progress": "Paid per pixel of new ground in the episode",
    "forward": "Paid per pixel to the right, also where Mario has been before",
    "early": "Paid per pixel of new ground on top, for the beginning of a run",
    "score": "Paid per point of the game's score",
    "coins": "Paid per coin",
    "power": "Paid per step up in power, lost per step down",
    "time": "Paid per tick of the game's clock, about six decisions",
    "death": "Paid at death, also when time is up",
    "flag": "Paid for clearing a stage",
    "milestone": "Paid for every so many pixels of new ground",
    "milestone_floor": "Pixels of new ground up to which milestones pay nothing any more",
    "stagnation": "Paid when an episode is cut for want of new ground",
    "loop": "Share of the ground a maze takes back by putting Mario back",
    "scale": "Multiplies all terms but those of an episode's end",
}
"""The settings, in the order in which the native code keeps them."""
TERMS = (
    "progress",
    "forward",
    "early",
    "score",
    "coins",
    "power",
    "time",
    "death",
    "flag",
    "milestone",
    "stagnation",
    "loop",
)
"""What the reward is made of; each is reported by this name and all add up to the reward."""
NOT_NEGATIVE = ("progress", "forward", "early", "milestone_floor", "loop", "scale")


@dataclass(frozen=True, slots=True)
class RewardOptions:
    """What a step pays. Each weight is the first value of the setting `reward.<name>`."""

    progress: float = 0.01
    """Paid per pixel of new ground: farther than ever in this episode, and walked to."""
    forward: float = 0.0
    """Paid per pixel to the right, also where Mario has been before."""
    early: float = 0.0
    """Paid per pixel of new ground on top, while `early_iterations` last."""
    early_iterations: int = 0
    """Iterations with the early payment; 0: as long as nothing else changes the setting."""
    score: float = 0.0
    """Paid per point of the game's score."""
    coins: float = 0.0
    """Paid per coin."""
    power: float = 0.0
    """Paid per step up in power, lost per step down."""
    time: float = -0.01
    """Paid per tick of the game's clock, about six decisions."""
    death: float = -2.0
    """Paid at death, also when time is up."""
    flag: float = 5.0
    """Paid for clearing a stage."""
    milestone: float = 0.0
    """Paid for every `milestone_every` pixels of new ground."""
    milestone_every: int = 300
    """Pixels between two milestones."""
    milestones_once: bool = False
    """Whether a milestone pays only until the run has reached it, instead of in every episode."""
    stagnation: float = 0.0
    """Paid when an episode is cut for want of new ground."""
    loop: float = 1.0
    """Share of the ground that a maze takes back by putting Mario back; walking it again then
    pays again. 0 pays every pixel once, whichever way is taken."""
    scale: float = 1.0
    """Multiplies all terms but those of an episode's end: death, flag and stagnation."""

    def __post_init__(self) -> None:
        for name in MEANINGS:
            value = self.first_value(name)
            if not math.isfinite(value):
                raise ConfigError(f"options.reward.{name} = {value} must be a finite number")
            if name in NOT_NEGATIVE and value < 0:
                raise ConfigError(f"options.reward.{name} = {value} must be 0 or more")
        if self.milestone_every < 1 or self.early_iterations < 0:
            raise ConfigError(
                "options.reward.milestone_every must be at least 1 and early_iterations 0 or more, "
                f"not {self.milestone_every} and {self.early_iterations}"
            )

    def first_value(self, name: str) -> float:
        """Return what the setting of this name begins with."""
        return float(asdict(self).get(name, 0.0))

    def settings(self) -> tuple[Setting[Any], ...]:
        """Return one setting per weight."""
        return tuple(
            Setting(
                PREFIX + name,
                self.first_value(name),
                meaning,
                low=0.0 if name in NOT_NEGATIVE else None,
            )
            for name, meaning in MEANINGS.items()
        )
