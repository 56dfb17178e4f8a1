"""Options of the fish's world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from longhaul.core.config import ABOVE_0, AT_LEAST_0, AT_LEAST_1, SHARE, check_ranges
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Setting
from longhaul.schedule.start_queue import LowWarning
from longhaul.tasks.fish.hard_starts.files import Applied, StageSpec, with_reinjections
from longhaul.tasks.fish.hard_starts.laps import LapRules
from longhaul.tasks.fish.training.options import TrainingOptions, lowered
from longhaul.tasks.fish.world.starts import VelocityRange


@dataclass(frozen=True, slots=True)
class TailOptions:
    """Bad starts that are dealt again in training."""

    stages: tuple[StageSpec, ...] = ()
    """Which starts are dealt when, `[{iterations = 8, path = "ne.json", type = "ne"}, ...]`, also
    with the keys label and velocities (before or after); a stage without a path deals none.
    Empty: no bad starts, or those of `path`."""
    path: str = ""
    """A file of starts that makes one stage of `iterations`, in place of `stages`."""
    iterations: int = 0
    """Length of that stage."""
    unit: Literal["iterations", "resets"] = "iterations"
    """Unit of a stage's length: iterations, or for each of them as many resets as there are
    schools."""
    velocities: Applied = "after"
    """When a bare velocity is given to the predator: before its pre-roll, as the original did, or
    after it."""
    per_iteration: int = 0
    """Most bad starts dealt in an iteration; 0: every school that resets takes one."""
    force_reset_steps: int = 0
    """Cut episodes after this many steps to deal more starts; 0: never."""
    keep: Mapping[str, float] = field(default_factory=dict)
    """Types that stay present in the stages of all others, `{type = share}`."""
    min_reinjections: Mapping[str, int] = field(default_factory=dict)
    """How often a type must come back at least, `{type = number}`; its last stage is repeated at
    the end until it does."""
    decay: float = 1.0
    """Factor of a start's weight after each replay; below 1, less replayed starts come first."""
    filter_window: int = 0
    """Bad replays in a row after which a start is set aside; 0: never."""
    filter_lost: float = 0.5
    """Share of fish lost at which a replay counts as bad."""
    filter_rest: int = 20
    """Iterations for which a start stays set aside."""
    gate_spared: float = 0.25
    """Share of a stage's starts, the hardest, left out of the lap after the gate moved."""
    warn_ratio: float = 0.65
    """Warn when this share of all stages or less remains; 0: never."""
    warn_patience: int = 3
    """Iterations in a row before the warning."""

    def __post_init__(self) -> None:
        lengths = "iterations per_iteration force_reset_steps"
        check_ranges(self, "options.tail", {AT_LEAST_0: lengths, AT_LEAST_1: "warn_patience"})
        if not self.warn_ratio <= 1:
            raise ConfigError(f"options.tail.warn_ratio = {self.warn_ratio} must be at most 1")
        if self.path and self.stages:
            raise ConfigError("options.tail has both stages and path; drop one of them")
        if bool(self.path) != bool(self.iterations):
            raise ConfigError("options.tail.path and options.tail.iterations go together")

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
        written = (StageSpec(self.iterations, self.path),) if self.path else self.stages
        stages = [spec.resolved(n, self.velocities) for n, spec in enumerate(written, start=1)]
        return with_reinjections(
            stages, lowered(self.min_reinjections), where="options.tail.min_reinjections"
        )

    def low_warning(self) -> LowWarning:
        """Return when to warn."""
        return LowWarning(self.warn_ratio, self.warn_patience)


Sectors = tuple[tuple[float, float, float], ...]
"""Intervals with weights: low, high, weight. None means that nothing is drawn."""


def _demand_sectors(name: str, sectors: Sectors, ceiling: float = np.inf) -> None:
    for low, high, weight in sectors:
        if not (0 <= low < high <= ceiling and weight > 0):
            raise ConfigError(
                f"options.start.{name}: {[low, high, weight]} needs 0 <= low < high"
                f"{f' <= {ceiling:g}' if np.isfinite(ceiling) else ''} and a weight above 0"
            )


def sector_table(sectors: Sectors) -> NDArray[np.float64]:
    """Return [count, 3]: low, high and the weights added up."""
    table = np.array(sectors, np.float64).reshape(-1, 3)
    table[:, 2] = np.cumsum(table[:, 2])
    return table


HEADINGS: Sectors = (
    (0.0, 60.0, 1.1),
    (60.0, 90.0, 0.8),
    (90.0, 120.0, 0.08),
    (120.0, 150.0, 0.05),
    (150.0, 210.0, 0.9),
    (210.0, 270.0, 1.3),
    (270.0, 330.0, 1.2),
    (330.0, 360.0, 0.95),
)
SPEEDS: Sectors = (
    (0.0, 1.0, 1.6),
    (1.0, 1.6, 1.3),
    (1.6, 2.0, 0.7),
    (2.0, 2.4, 0.35),
    (2.4, 3.0, 0.2),
)

ESCAPE_BOOST: Setting[float] = Setting(
    "fish.escape_boost", 0.75, "Share of the top speed fish start with", low=0.0, high=1.0
)
DENSITY_PENALTY: Setting[float] = Setting(
    "fish.density_penalty", 0.0, "Cost of neighbors beyond the target, per step", low=0.0
)
TAIL_TYPE: Setting[str] = Setting(
    "fish.tail_type", "", "Type of the stage bad starts are dealt from; empty without any"
)
SCHOOL_SIZE: Setting[int] = Setting(
    "fish.school_size", 25, "Fish of a school; the rows above are empty", low=1, high=25
)


@dataclass(frozen=True, slots=True)
class FishStartOptions:
    """How an episode begins."""

    escape_boost: bool = True
    """Whether fish start swimming outwards instead of in a random direction."""
    escape_boost_speed: float = 0.75
    """Share of the top speed they then start with; the setting `fish.escape_boost`."""
    escape_jitter: float = 0.35
    """Standard deviation of that direction, in radians."""
    spawn_jitter: float = 1.6
    """Predators start within this distance of the center."""
    pre_roll_steps: int = 16
    """Steps predators take before the episode begins."""
    pre_roll_angle_jitter: float = 0.3
    """Most by which each of these steps turns the predator, in radians."""
    pre_roll_speed_jitter: float = 0.2
    """Most by which each of these steps scales its speed, as a share."""
    heading_bias: Sectors = HEADINGS
    """Weights of the predator's first heading, `[[from, to, weight], ...]` in degrees; empty is
    along +x."""
    pre_roll_speed_bias: Sectors = SPEEDS
    """Weights of the speed drawn in each step of the pre-roll, `[[low, high, weight], ...]`; empty
    keeps the speed."""
    drops_last_sector: bool = False
    """Never draw a heading from a sector that ends at 360, as the original did by mistake."""
    joint_bias: tuple[VelocityRange, ...] = ()
    """Weights of starts by the predator's heading in degrees and speed after the pre-roll,
    `[{angles = [90, 150], speeds = [1.8, 3.0], weight = 0.1}, ...]`; 1 elsewhere. Unwanted starts
    are drawn again."""

    def __post_init__(self) -> None:
        jitters = "escape_jitter spawn_jitter pre_roll_angle_jitter pre_roll_speed_jitter"
        ranges = {SHARE: "escape_boost_speed", AT_LEAST_0: f"{jitters} pre_roll_steps"}
        check_ranges(self, "options.start", ranges)
        _demand_sectors("heading_bias", self.heading_bias, ceiling=360.0)
        _demand_sectors("pre_roll_speed_bias", self.pre_roll_speed_bias)
        for cell in self.joint_bias:
            cell.check("options.start.joint_bias")

    def headings(self) -> Sectors:
        """Return the weighted headings, in degrees, that are drawn from."""
        dropped = 360.0 if self.drops_last_sector else None
        return tuple(sector for sector in self.heading_bias if sector[1] != dropped)


@dataclass(frozen=True, slots=True)
class PredatorOptions:
    """The predators."""

    count: int = 1
    """Number of predators."""
    homing: float = 0.0
    """Acceleration towards the nearest fish; 0 falls towards +y, as in the original."""
    homing_speed: float = 1.8
    """Top speed of a homing predator; fish reach 2."""

    def __post_init__(self) -> None:
        ranges = {AT_LEAST_1: "count", AT_LEAST_0: "homing", ABOVE_0: "homing_speed"}
        check_ranges(self, "options.predator", ranges)


@dataclass(frozen=True, slots=True)
class NeighborOptions:
    """What fish observe of each other."""

    inputs: bool = False
    """Show each fish a summary of its neighbors, 7 more inputs."""
    radius: float = 3.0
    """Distance up to which neighbors are seen."""
    average_count: int = 6
    """Number of nearest neighbors whose mean offset is shown; this many count as full density."""

    def __post_init__(self) -> None:
        check_ranges(self, "options.neighbors", {AT_LEAST_1: "average_count", ABOVE_0: "radius"})


@dataclass(frozen=True, slots=True)
class FishRewardOptions:
    """The reward."""

    kind: Literal["plain", "original"] = "plain"
    """`plain`: a small reward for every step alive and a penalty for death. `original`: the
    predecessor's, with its bonus near the predator."""
    alive: float = 0.01
    """plain: reward of every step survived."""
    death: float = 1.0
    """plain: penalty of death."""
    density_penalty: float = 0.0
    """Cost of neighbors beyond the target; the setting `fish.density_penalty`."""
    density_target: float = 0.4
    """Density without cost, as a share of `neighbors.average_count`."""
    divergence: float = 0.0
    """Reward for neighbors that swim away."""

    def __post_init__(self) -> None:
        check_ranges(
            self, "options.reward", {SHARE: "density_target", AT_LEAST_0: "density_penalty"}
        )


@dataclass(frozen=True, slots=True)
class FishEvaluationOptions:
    """The size of evaluations and their seeds."""

    episodes: int = 0
    """Episodes of an evaluation; 0: what the suite has (v38 12 in each of its seven evaluations,
    rehearsal 64, fresh 100)."""
    fish: int = 0
    """Fish of a school in evaluations; 0: what the suite has (96, rehearsal 48)."""
    seed_base: int = 0
    """Where the seeds of the episodes come from; 0: what the suite has (v38 411232)."""
    film_fish: int = 0
    """Fish in the films of the final evaluation, which then shows the suite `films`; 0: films show
    the evaluation's own episodes."""

    def __post_init__(self) -> None:
        names = "episodes fish seed_base film_fish"
        check_ranges(self, "options.evaluation", {AT_LEAST_0: names})

    def as_text(self) -> str:
        """Return how the evaluations differ from those of the suites; empty if they do not."""
        words = (("episodes", self.episodes), ("fish", self.fish), ("seed base", self.seed_base))
        return ", ".join(f"{name} {value}" for name, value in words if value)


@dataclass(frozen=True, slots=True)
class FishOptions:
    """The fish's world."""

    fish: int = 25
    """Fish of a school."""
    inputs: Literal["own_frame", "world"] = "own_frame"
    """The observation: everything in the fish's own frame, or the original's 11 numbers along the
    world's axes."""
    acting: Literal["each", "broadcast"] = "each"
    """`each`: every fish acts for itself. `broadcast`: as in the original, one fish is observed and
    all fish take its action."""
    sampling: Literal["round_robin", "random"] = "round_robin"
    """broadcast: how the observed fish is chosen."""
    time_limit: int = 500
    """Steps of an episode."""
    short_limit: int = 60
    """Steps of a short episode."""
    short_share: float = 0.0
    """Share of short episodes: most deaths are decided at the beginning."""
    limit_ends: bool = False
    """Treat the time limit as termination, as the original did, not as truncation."""
    start: FishStartOptions = field(default_factory=FishStartOptions)
    """How an episode begins."""
    predator: PredatorOptions = field(default_factory=PredatorOptions)
    """The predators."""
    neighbors: NeighborOptions = field(default_factory=NeighborOptions)
    """What fish observe of each other."""
    reward: FishRewardOptions = field(default_factory=FishRewardOptions)
    """The reward."""
    training: TrainingOptions = field(default_factory=TrainingOptions)
    """What changes during a run."""
    tail: TailOptions = field(default_factory=TailOptions)
    """Bad starts that are dealt again in training."""
    evaluation: FishEvaluationOptions = field(default_factory=FishEvaluationOptions)
    """The size of evaluations and their seeds."""
    obstacles: tuple[tuple[float, float, float], ...] = ()
    """Discs that fish and predators bounce off: `[[x, y, radius], ...]`."""

    def __post_init__(self) -> None:
        ranges = {AT_LEAST_1: "fish time_limit short_limit", SHARE: "short_share"}
        check_ranges(self, "options", ranges)
        for x, y, radius in self.obstacles:
            if not (radius > 0 and (x * x + y * y) ** 0.5 + radius < 10):
                raise ConfigError(
                    f"options.obstacles: the disc {(x, y, radius)} is not inside the stage, "
                    "whose radius is 10"
                )

    def settings(self) -> tuple[Setting[float], Setting[float], Setting[int]]:
        """Return the declarations of what may change during a run, with these initial values."""
        return (
            replace(ESCAPE_BOOST, default=self.start.escape_boost_speed),
            replace(DENSITY_PENALTY, default=self.reward.density_penalty),
            replace(SCHOOL_SIZE, default=self.fish, high=self.fish),
        )
