"""Where a run's games come from: the user's copy of the game, looked for when it is needed."""

from __future__ import annotations

from dataclasses import dataclass, field

from longhaul.core.env import BatchedEnvs
from longhaul.core.spaces import EnvSpec
from longhaul.tasks.mario.game.games import GameFactory, Games, game_spec
from longhaul.tasks.mario.game.options import GameOptions
from longhaul.tasks.mario.payments import TermReward
from longhaul.tasks.mario.probe import with_forward_action
from longhaul.tasks.mario.rom import find_rom


@dataclass(frozen=True, slots=True)
class GameSource:
    """Makes batches of games; its shapes are known without a copy of the game. Picklable."""

    options: GameOptions
    rom: str
    """Which copy: a file, `standin`, or empty for the one that can be found."""
    reward: TermReward = field(default_factory=TermReward)
    follows_settings: bool = True

    def __call__(self, count: int) -> Games:
        """Return `count` games."""
        cartridge = find_rom(self.rom).cartridge
        options = with_forward_action(self.options, cartridge)
        return GameFactory(options, cartridge, self.reward, self.follows_settings)(count)

    @property
    def spec(self) -> EnvSpec:
        """The shapes and promises of one game."""
        return game_spec(self.options, self.reward)

    def envs(self) -> BatchedEnvs:
        """Return the source as the engine takes it."""
        return BatchedEnvs(self.spec, self)
