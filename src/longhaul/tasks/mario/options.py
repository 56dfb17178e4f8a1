"""Everything that can be said about a Mario run in its `[options]` table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from longhaul.core.config import AT_LEAST_0, AT_LEAST_1, PART, SHARE, Ranges, check_ranges
from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.settings import Setting
from longhaul.tasks.mario.game.movies import parse_script
from longhaul.tasks.mario.game.options import MOST_STICKY, GameOptions
from longhaul.tasks.mario.payments import RewardOptions
from longhaul.tasks.mario.source import FORWARD

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


_START_RANGES: Ranges = {
    SHARE: "share fresh_floor frontier_share memory",
    AT_LEAST_1: "frontier_bins bin_pixels places_per_bin",
    AT_LEAST_0: "least_back",
}
_HELP_RANGES: Ranges = {
    AT_LEAST_0: "first_iterations bootstrap_after patience plateau_after plateau_rest",
    AT_LEAST_1: "plateau_window iterations",
    PART: "share",
}


@dataclass(frozen=True, slots=True)
class StartOptions:
    """Hard starts, for training only: evaluations always begin at the true start."""

    share: float = 0.0
    """Share of the episodes that begin from a kept place; the setting `mario.hard_share`. 0 keeps
    no places at all."""
    fresh_floor: float = 0.3
    """Least share of the episodes that begin at the stage's start, whatever the setting is."""
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
    """Whether the share falls as more of the fresh episodes clear their stage, or is constant."""

    def __post_init__(self) -> None:
        check_ranges(self, "options.starts", _START_RANGES)
        if self.share + self.fresh_floor > 1 + 1e-9:
            raise ConfigError(
                f"options.starts.share = {self.share} leaves less than "
                f"options.starts.fresh_floor = {self.fresh_floor} for fresh starts"
            )

    @property
    def is_on(self) -> bool:
        """Whether any place is kept."""
        return self.share > 0


TRAIL, TRAIL_EVERY = 6, 4
"""Snapshots kept for hard starts: about the last second and a half of an episode."""


@dataclass(frozen=True, slots=True)
class HelpOptions:
    """When episodes begin with the script of the options; forced steps train nothing."""

    first_iterations: int = 0
    """The script is used in the first iterations, this many."""
    bootstrap_after: int = 0
    """The script is used from this iteration on if no episode has made progress yet; 0: never."""
    patience: int = 0
    """The script is used after this many iterations in a row without progress; 0: never."""
    plateau_after: int = 0
    """From this iteration on, the script is used when the farthest progress has not grown; 0:
    never."""
    plateau_window: int = 50
    """Iterations over which the farthest progress must have grown."""
    plateau_rest: int = 100
    """Iterations before the script may be used for a plateau again."""
    iterations: int = 10
    """How long the script is then used."""
    share: float = 1.0
    """Share of the episodes that then begin with it."""

    def __post_init__(self) -> None:
        check_ranges(self, "options.schedule.help", _HELP_RANGES)

    @property
    def is_on(self) -> bool:
        """Whether anything ever asks for the script."""
        return bool(
            self.first_iterations or self.bootstrap_after or self.patience or self.plateau_after
        )


ORDERS = ("drawn", "curriculum", "failures")


@dataclass(frozen=True, slots=True)
class StageOptions:
    """Which of the stages are played, and how often."""

    order: str = "drawn"
    """`drawn`: all stages of the options, by their weights. `curriculum`: one after another, the
    next one joins when the newest is cleared often enough. `failures`: all, each as often as it was
    recently failed from its true start."""
    threshold: float = 0.6
    """Clear rate, over recent training episodes, at which the next stage joins."""
    old_weight: float = 0.25
    """How often a stage that was passed is drawn, compared with the newest; with `failures`, one
    that is never failed, compared with one that always is."""

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ConfigError(
                f"options.schedule.stages.order = {self.order!r} is none of {', '.join(ORDERS)}"
                f"{suggestion(self.order, ORDERS)}"
            )
        check_ranges(self, "options.schedule.stages", {PART: "threshold", SHARE: "old_weight"})
        if self.order == "failures" and not self.old_weight:
            raise ConfigError(
                "options.schedule.stages.old_weight must be above 0 with the order 'failures': a "
                "stage that is never drawn again would not be seen to be forgotten"
            )


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """What changes automatically; `[[schedule]]` tables change everything else."""

    help: HelpOptions = field(default_factory=HelpOptions)
    """When episodes begin with the script."""
    stages: StageOptions = field(default_factory=StageOptions)
    """Which stages are played."""


@dataclass(frozen=True, slots=True)
class MarioOptions(GameOptions):
    """The game, its reward, its starts and its evaluation."""

    reward: RewardOptions = field(default_factory=RewardOptions)
    """What a step pays; every weight is a setting too."""
    starts: StartOptions = field(default_factory=StartOptions)
    """Episodes that begin where others ended."""
    schedule: ScheduleOptions = field(default_factory=ScheduleOptions)
    """What changes automatically during the run."""
    training_sticky: float = 0.0
    """`sticky` in training only, to train on harder games than are measured: the policy learns to
    keep a distance. 0 trains with `sticky`."""
    final_episodes: int = 100
    """Episodes of the evaluation at the end, on each stage; a tenth of it with many stages."""
    rehearsal_episodes: int = 24
    """Episodes of the evaluations during training, over all stages, but at least two on each."""

    def __post_init__(self) -> None:
        # `super()` without arguments does not work in a dataclass with slots.
        GameOptions.__post_init__(self)
        check_ranges(self, "options", {AT_LEAST_1: "final_episodes rehearsal_episodes"})
        if self.training_sticky and not self.sticky <= self.training_sticky <= MOST_STICKY:
            raise ConfigError(
                f"options.training_sticky = {self.training_sticky} must be 0 or between "
                f"options.sticky = {self.sticky} and {MOST_STICKY}"
            )
        parse_script(FORWARD.sub("RIGHT", self.script))
        if self.schedule.help.is_on and not self.script:
            raise ConfigError(
                "options.schedule.help begins episodes with options.script, which is empty; "
                "set it, for example to 'FORWARD:40'"
            )

    def games(self) -> GameOptions:
        """Return how the games of training are played, trails included where they are needed."""
        played = replace(self, sticky=max(self.sticky, self.training_sticky))
        if not self.starts.is_on or self.trail:
            return played
        return replace(played, trail=TRAIL, trail_every=TRAIL_EVERY)
