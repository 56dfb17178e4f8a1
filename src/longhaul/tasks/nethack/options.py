"""Options of the NetHack task: the game, the observation and the player."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Literal

from longhaul.core.config import AT_LEAST_0, AT_LEAST_1, check_ranges
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Setting
from longhaul.tasks.nethack.policy.options import PolicyOptions
from longhaul.tasks.nethack.policy.phases import PhaseOptions
from longhaul.tasks.nethack.skills import ActionSet

GAME_STEPS = 100_000
"""The largest cap; NLE's own environment ends games after 5,000 steps, the engine does not."""
Play = Literal["keys", "skills"]
RewardKind = Literal["score", "shaped"]
CHARACTER = re.compile(r"@|[a-z]{3}(-[a-z]{3}){0,3}")
TRAINING_CAP: Setting[int] = Setting(
    "nethack.max_steps",
    2000,
    "Steps after which a training game is cut, from the next game on; at most options.max_steps, "
    "under which evaluations are played",
    low=1,
)


@dataclass(frozen=True, slots=True)
class MapOptions:
    """Settings of the `[options.map]` table: whether the policy sees the map itself."""

    view: bool = False
    """Whether observations hold a crop of the map around the hero, the words of the message and
    what is in the pack, beside the state vector and the atoms."""
    size: int = 9
    """Height and width of the crop, an odd number; the hero is in its middle."""

    def __post_init__(self) -> None:
        if self.size < 3 or self.size % 2 == 0:
            raise ConfigError(f"options.map.size = {self.size} must be odd and at least 3")


@dataclass(frozen=True, slots=True)
class MaskOptions:
    """Settings of the `[options.mask]` table: which actions the rules allow."""

    enabled: bool = True
    """Whether actions that no rule supports are masked. While the game asks a question, all are
    allowed."""


@dataclass(frozen=True, slots=True)
class NetHackGameOptions:
    """Options of the game, the observation and the rules."""

    character: str = "mon-hum-neu-mal"
    """Role, race, alignment and gender as NLE writes them; `@` draws them by the game's seed."""
    max_steps: int = 2000
    """The cap: steps after which a game is cut. It is part of every log and checkpoint, and runs
    with different caps are never compared. A schedule of the setting `nethack.max_steps` may cut
    training games earlier."""
    reward: RewardKind = "score"
    """What is paid: the change of the score, or a sum of progress, safety, efficiency, feasibility
    and exploration (`shaped`). Games are measured by their score in either case."""
    frozen_penalty: float = 0.01
    """Penalty of a step in which the game's clock does not advance."""
    rules: str = ""
    """A file with the rules; empty for those that come with the task."""
    map: MapOptions = field(default_factory=MapOptions)
    """Whether the policy sees the map itself."""
    mask: MaskOptions = field(default_factory=MaskOptions)
    """Which actions are allowed."""
    actions: ActionSet = "score"
    """The actions there are: NetHackScore's 23, or `extended`, which adds praying, drinking, eating
    anything edible, counted search and travel. Games of different sets are never compared."""
    play: Play = "keys"
    """What the player chooses: single actions, or skills that go on for several."""
    skill_steps: int = 8
    """Actions after which a skill ends at the latest; 1 chooses again after every action."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_steps <= GAME_STEPS:
            raise ConfigError(
                f"options.max_steps = {self.max_steps} must be at least 1 and at most {GAME_STEPS}"
            )
        if not CHARACTER.fullmatch(self.character):
            raise ConfigError(
                f"options.character = {self.character!r}: use role, race, alignment and gender, "
                "as in mon-hum-neu-mal, or @"
            )
        check_ranges(self, "options", {AT_LEAST_0: "frozen_penalty", AT_LEAST_1: "skill_steps"})


@dataclass(frozen=True, slots=True)
class NetHackOptions(NetHackGameOptions):
    """Options of the game, the observation and the player."""

    network: Literal["experts", "plain"] = "experts"
    """The player: `experts` is a router and experts that use the rules; `plain` is the network of
    the `[policy]` table, which sees only the observation."""
    policy: PolicyOptions = field(default_factory=PolicyOptions)
    """How the experts' network is built."""
    phases: PhaseOptions = field(default_factory=PhaseOptions)
    """How its losses change over the run."""
    eval_episodes: int = 200
    """Held-out games of the final evaluation."""

    def __post_init__(self) -> None:
        NetHackGameOptions.__post_init__(self)
        check_ranges(self, "options", {AT_LEAST_1: "eval_episodes"})

    def game(self) -> NetHackGameOptions:
        """Return the options a worker needs: the game without its player."""
        return NetHackGameOptions(
            **{own.name: getattr(self, own.name) for own in fields(NetHackGameOptions)}
        )
