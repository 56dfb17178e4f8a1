"""Everything that can be said about a Mario run in its `[options]` table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from longhaul.core.errors import ConfigError
from longhaul.tasks.mario.game.options import MOST_STICKY, GameOptions
from longhaul.tasks.mario.game.scripts import parse_script
from longhaul.tasks.mario.probe import FORWARD
from longhaul.tasks.mario.reward.options import RewardOptions
from longhaul.tasks.mario.schedule.options import ScheduleOptions
from longhaul.tasks.mario.starts.options import StartOptions

TRAIL, TRAIL_EVERY = 6, 4
"""Snapshots kept for hard starts: about the last second and a half of an episode."""


@dataclass(frozen=True, slots=True)
class Options(GameOptions):
    """The game and what is made of it."""

    reward: RewardOptions = field(default_factory=RewardOptions)
    """What a step pays; every weight is a setting too."""
    starts: StartOptions = field(default_factory=StartOptions)
    """Episodes that begin where others ended."""
    schedule: ScheduleOptions = field(default_factory=ScheduleOptions)
    """What changes by itself while the run goes on."""
    training_sticky: float = 0.0
    """`sticky` for the games of training alone, to train for harder games than are measured:
    who must expect to be heard late keeps a distance. 0 trains with `sticky`."""
    final_episodes: int = 100
    """Episodes of the evaluation at the end, on each stage; a tenth of it with many stages."""
    rehearsal_episodes: int = 24
    """Episodes of the evaluations during training, over all stages, but at least two on each."""

    def __post_init__(self) -> None:
        # `super()` without arguments does not work in a dataclass with slots.
        GameOptions.__post_init__(self)
        for name, value in (
            ("final_episodes", self.final_episodes),
            ("rehearsal_episodes", self.rehearsal_episodes),
        ):
            if value < 1:
                raise ConfigError(f"options.{name} = {value} must be at least 1")
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
