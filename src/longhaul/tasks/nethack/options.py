"""What can be said about the NetHack task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from longhaul.core.errors import ConfigError
from longhaul.tasks.nethack.game_options import GameOptions
from longhaul.tasks.nethack.policy.options import PolicyOptions
from longhaul.tasks.nethack.policy.phase_options import PhaseOptions


@dataclass(frozen=True, slots=True)
class Options(GameOptions):
    """What can be said about the game, what is seen of it, and who plays."""

    network: Literal["experts", "plain"] = "experts"
    """Who plays: a router and experts that know the rules, or the network of the `[policy]`
    table, which knows only what it sees."""
    policy: PolicyOptions = field(default_factory=PolicyOptions)
    """How the experts' network is built."""
    phases: PhaseOptions = field(default_factory=PhaseOptions)
    """How its losses change over the run."""
    eval_episodes: int = 200
    """Held-out games of the final evaluation."""

    def __post_init__(self) -> None:
        GameOptions.__post_init__(self)
        if self.eval_episodes < 1:
            raise ConfigError(f"options.eval_episodes = {self.eval_episodes} must be at least 1")

    def game(self) -> GameOptions:
        """Return what a worker has to know: the game without its player."""
        return GameOptions(
            character=self.character,
            max_steps=self.max_steps,
            frozen_penalty=self.frozen_penalty,
            rules=self.rules,
            map=self.map,
            mask=self.mask,
        )
