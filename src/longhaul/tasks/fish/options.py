"""What can be said about the fish's world in a configuration."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from longhaul.core.errors import ConfigError
from longhaul.core.settings import Setting
from longhaul.tasks.fish.bias import Sectors
from longhaul.tasks.fish.schedule_options import TrainingOptions
from longhaul.tasks.fish.tail.joint import JointBias
from longhaul.tasks.fish.tail.options import TailOptions

HEADINGS = (
    "0-60:1.1,60-90:0.8,90-120:0.08,120-150:0.05,150-210:0.9,210-270:1.3,270-330:1.2,330-360:0.95"
)
SPEEDS = "0-1.0:1.6,1.0-1.6:1.3,1.6-2.0:0.7,2.0-2.4:0.35,2.4-3.0:0.2"

ESCAPE_BOOST: Setting[float] = Setting(
    "fish.escape_boost", 0.75, "Share of the top speed fish start with", low=0.0, high=1.0
)
DENSITY_PENALTY: Setting[float] = Setting(
    "fish.density_penalty", 0.0, "Cost of neighbours beyond the target, per step", low=0.0
)
SCHOOL_SIZE: Setting[int] = Setting(
    "fish.school_size", 25, "Fish of a school; the rows above are empty", low=1, high=25
)


def _demand_between(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ConfigError(f"options.{name} = {value} must be between {low} and {high}")


@dataclass(frozen=True, slots=True)
class StartOptions:
    """How an episode begins."""

    escape_boost: bool = True
    """Whether fish start swimming outwards instead of anywhere."""
    escape_boost_speed: float = 0.75
    """Share of the top speed they then start with; the setting `fish.escape_boost`."""
    escape_jitter: float = 0.35
    """Standard deviation of that direction, in radians."""
    spawn_jitter: float = 1.6
    """Predators start within this distance of the centre."""
    pre_roll_steps: int = 16
    """Steps predators take before the episode begins."""
    pre_roll_angle_jitter: float = 0.3
    """Most by which each of these steps turns the predator, in radians."""
    pre_roll_speed_jitter: float = 0.2
    """Most by which each of these steps scales its speed, as a share."""
    heading_bias: str = HEADINGS
    """Weights of the predator's first heading, `from-to:weight` in degrees, by commas; empty is
    along +x."""
    pre_roll_speed_bias: str = SPEEDS
    """Weights of the speed drawn in each step of the pre-roll, `low-high:weight`; empty keeps
    the speed."""
    drops_last_sector: bool = False
    """Never draw a heading from a sector that ends at 360, as the original did by mistake."""
    joint_bias: str = ""
    """Weights of starts by the predator's heading and speed after the pre-roll,
    `low-high/low-high:weight` in degrees and speeds, by commas; 1 elsewhere. Unwanted starts are
    drawn again."""

    def __post_init__(self) -> None:
        _demand_between("start.escape_boost_speed", self.escape_boost_speed, 0.0, 1.0)
        for name, value in (
            ("escape_jitter", self.escape_jitter),
            ("spawn_jitter", self.spawn_jitter),
            ("pre_roll_steps", self.pre_roll_steps),
            ("pre_roll_angle_jitter", self.pre_roll_angle_jitter),
            ("pre_roll_speed_jitter", self.pre_roll_speed_jitter),
        ):
            if not value >= 0:
                raise ConfigError(f"options.start.{name} = {value} must be 0 or more")
        self.headings()
        self.speeds()
        self.joint()

    def headings(self) -> Sectors:
        """Return the weighted headings, in degrees."""
        return Sectors.parse(
            self.heading_bias,
            where="options.start.heading_bias",
            ceiling=360.0,
            drops_end=self.drops_last_sector,
        )

    def speeds(self) -> Sectors:
        """Return the weighted speeds."""
        return Sectors.parse(self.pre_roll_speed_bias, where="options.start.pre_roll_speed_bias")

    def joint(self) -> JointBias:
        """Return the weights of starts as they are after the pre-roll."""
        return JointBias.parse(self.joint_bias, where="options.start.joint_bias")


PLAIN_START = StartOptions(
    escape_boost=False,
    spawn_jitter=0.0,
    pre_roll_steps=0,
    heading_bias="",
    pre_roll_speed_bias="",
)
"""The original environment's own defaults: everybody anywhere, the predator in the middle."""


@dataclass(frozen=True, slots=True)
class PredatorOptions:
    """Who hunts."""

    count: int = 1
    """Number of predators."""
    homing: float = 0.0
    """Acceleration towards the nearest fish; 0 falls towards +y, as in the original."""
    homing_speed: float = 1.8
    """Top speed of a homing predator; fish reach 2."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ConfigError(f"options.predator.count = {self.count} must be at least 1")
        if not (self.homing >= 0 and self.homing_speed > 0):
            raise ConfigError(
                "options.predator.homing must be 0 or more and homing_speed above 0, not "
                f"{self.homing} and {self.homing_speed}"
            )


@dataclass(frozen=True, slots=True)
class NeighbourOptions:
    """What fish know of each other."""

    inputs: bool = False
    """Show each fish a summary of its neighbours: 7 inputs more."""
    radius: float = 3.0
    """How far neighbours are seen."""
    average_count: int = 6
    """How many of the nearest make the mean way to the neighbours; full density is this many."""

    def __post_init__(self) -> None:
        if not self.radius > 0 or self.average_count < 1:
            raise ConfigError(
                "options.neighbours.radius must be above 0 and average_count at least 1, not "
                f"{self.radius} and {self.average_count}"
            )


@dataclass(frozen=True, slots=True)
class RewardOptions:
    """What fish are paid."""

    kind: Literal["plain", "original"] = "plain"
    """`plain`: a little for every step alive and a penalty at death. `original`: the
    predecessor's, with its bonus for the predator's neighbourhood."""
    alive: float = 0.01
    """plain: for every step survived."""
    death: float = 1.0
    """plain: lost by dying."""
    density_penalty: float = 0.0
    """Cost of neighbours beyond the target; the setting `fish.density_penalty`."""
    density_target: float = 0.4
    """Density that costs nothing, as a share of `neighbours.average_count`."""
    divergence: float = 0.0
    """Worth of neighbours that swim away."""

    def __post_init__(self) -> None:
        _demand_between("reward.density_target", self.density_target, 0.0, 1.0)
        if not self.density_penalty >= 0:
            raise ConfigError(
                f"options.reward.density_penalty = {self.density_penalty} must be 0 or more"
            )


@dataclass(frozen=True, slots=True)
class Options:
    """The fish's world."""

    fish: int = 25
    """Fish of a school."""
    inputs: Literal["own_frame", "world"] = "own_frame"
    """What a fish sees: everything as it lies from the fish, or the original's 11 numbers along
    the world's axes."""
    acting: Literal["each", "broadcast"] = "each"
    """`each`: every fish acts for itself. `broadcast`: as in the original, one fish is looked at
    and its action is done by all."""
    sampling: Literal["round_robin", "random"] = "round_robin"
    """broadcast: how the fish that is looked at is chosen."""
    time_limit: int = 500
    """Steps of an episode."""
    short_limit: int = 60
    """Steps of a short episode."""
    short_share: float = 0.0
    """Share of episodes that are short: the decisive moments are at the beginning."""
    limit_ends: bool = False
    """Treat the time limit as an end worth nothing, as the original did, not as a cut."""
    start: StartOptions = field(default_factory=StartOptions)
    """How an episode begins."""
    predator: PredatorOptions = field(default_factory=PredatorOptions)
    """Who hunts."""
    neighbours: NeighbourOptions = field(default_factory=NeighbourOptions)
    """What fish know of each other."""
    reward: RewardOptions = field(default_factory=RewardOptions)
    """What fish are paid."""
    training: TrainingOptions = field(default_factory=TrainingOptions)
    """How a run changes while it goes on."""
    tail: TailOptions = field(default_factory=TailOptions)
    """Bad starts that are dealt again in training."""
    obstacles: tuple[tuple[float, float, float], ...] = ()
    """Discs that fish and predators bounce off: `[[x, y, radius], ...]`."""

    def __post_init__(self) -> None:
        for name, value in (
            ("fish", self.fish),
            ("time_limit", self.time_limit),
            ("short_limit", self.short_limit),
        ):
            if value < 1:
                raise ConfigError(f"options.{name} = {value} must be at least 1")
        _demand_between("short_share", self.short_share, 0.0, 1.0)
        for x, y, radius in self.obstacles:
            if not (radius > 0 and (x * x + y * y) ** 0.5 + radius < 10):
                raise ConfigError(
                    f"options.obstacles: the disc {(x, y, radius)} is not inside the stage, "
                    "whose radius is 10"
                )

    def settings(self) -> tuple[Setting[float], Setting[float], Setting[int]]:
        """Return the declarations of what may change during a run, beginning at these values."""
        return (
            replace(ESCAPE_BOOST, default=self.start.escape_boost_speed),
            replace(DENSITY_PENALTY, default=self.reward.density_penalty),
            replace(SCHOOL_SIZE, default=self.fish, high=self.fish),
        )
