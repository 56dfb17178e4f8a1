"""What can be said about a game; apart from the player, for workers need to know nothing of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from longhaul.core.errors import ConfigError

GAME_STEPS = 5000
"""Steps after which NLE itself ends a game."""
CHARACTER = re.compile(r"@|[a-z]{3}(-[a-z]{3}){0,3}")


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
    """Settings of the `[options.mask]` table: which actions the rules leave open."""

    enabled: bool = True
    """Whether actions no rule speaks for are closed. While the game asks something, all are
    open."""


@dataclass(frozen=True, slots=True)
class GameOptions:
    """What can be said about the game, what is seen of it and by which rules it is read."""

    character: str = "mon-hum-neu-mal"
    """Role, race, alignment and gender as NLE writes them; `@` draws them by the game's seed."""
    max_steps: int = 2000
    """The cap: steps after which a game is cut. It is part of every log and checkpoint, and runs
    with different caps are never compared."""
    frozen_penalty: float = 0.01
    """What a step costs in which the game's clock stands still."""
    rules: str = ""
    """A file with the rules; empty for those that come with the task."""
    map: MapOptions = field(default_factory=MapOptions)
    """Whether the policy sees the map itself."""
    mask: MaskOptions = field(default_factory=MaskOptions)
    """Which actions are open."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_steps <= GAME_STEPS:
            raise ConfigError(
                f"options.max_steps = {self.max_steps} must be at least 1 and at most "
                f"{GAME_STEPS}, where NLE itself ends a game"
            )
        if not CHARACTER.fullmatch(self.character):
            raise ConfigError(
                f"options.character = {self.character!r}: write role, race, alignment and gender, "
                "as in mon-hum-neu-mal, or @"
            )
        if self.frozen_penalty < 0:
            raise ConfigError(
                f"options.frozen_penalty = {self.frozen_penalty} is a cost: it cannot be negative"
            )
