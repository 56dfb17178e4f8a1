"""How many episodes begin where others ended, and which places are kept for it."""

from __future__ import annotations

from dataclasses import dataclass

from longhaul.core.errors import ConfigError
from longhaul.core.settings import Setting

HARD_SHARE: Setting[float] = Setting(
    "mario.hard_share",
    0.0,
    "Share of the training episodes that begin from a kept place instead of the stage's start",
    low=0.0,
    high=1.0,
)
FRONTIER_SHARE: Setting[float] = Setting(
    "mario.frontier_share",
    0.5,
    "Of the episodes from kept places, the share from the farthest ones; the others begin where "
    "most episodes end",
    low=0.0,
    high=1.0,
)


@dataclass(frozen=True, slots=True)
class StartOptions:
    """Hard starts, for training only: evaluations always begin at the true start."""

    share: float = 0.0
    """Share of the episodes that begin from a kept place; the setting `mario.hard_share`. 0 keeps
    no places at all."""
    fresh_floor: float = 0.3
    """Least share of the episodes that begin at the stage's start, whatever changes the setting."""
    frontier_share: float = 0.5
    """Of the hard starts, the share from the farthest places; the setting `mario.frontier_share`.
    The others are drawn by how many episodes recently ended there."""
    frontier_bins: int = 3
    """How many of the farthest places count as the frontier."""
    bin_pixels: int = 128
    """Length of the stretches of a stage in which places and ends are counted together."""
    places_per_bin: int = 4
    """Places kept for each stretch; a new one takes the oldest one's place."""
    least_back: int = 6
    """Decisions a place must lie before the end of the episode it was taken from."""
    memory: float = 0.98
    """What is left of each stretch's count of ends after every hundred episodes of its stage."""
    adapts: bool = True
    """Whether the share falls as more of the fresh episodes clear their stage, instead of
    staying as it is."""

    def __post_init__(self) -> None:
        for name, value in (
            ("share", self.share),
            ("fresh_floor", self.fresh_floor),
            ("frontier_share", self.frontier_share),
            ("memory", self.memory),
        ):
            if not 0 <= value <= 1:
                raise ConfigError(f"options.starts.{name} = {value} must be between 0 and 1")
        if self.share + self.fresh_floor > 1 + 1e-9:
            raise ConfigError(
                f"options.starts.share = {self.share} leaves less than "
                f"options.starts.fresh_floor = {self.fresh_floor} for fresh starts"
            )
        for name, number in (
            ("frontier_bins", self.frontier_bins),
            ("bin_pixels", self.bin_pixels),
            ("places_per_bin", self.places_per_bin),
        ):
            if number < 1:
                raise ConfigError(f"options.starts.{name} = {number} must be at least 1")
        if self.least_back < 0:
            raise ConfigError(f"options.starts.least_back = {self.least_back} must be 0 or more")

    @property
    def is_on(self) -> bool:
        """Whether any place is kept."""
        return self.share > 0
