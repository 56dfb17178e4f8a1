"""Where a run's games come from, and which action moves Mario forward in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from longhaul.core.env import BatchedEnvs
from longhaul.core.errors import ConfigError
from longhaul.core.spaces import EnvSpec
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.game import reward as at
from longhaul.tasks.mario.game.games import GameFactory, Games, game_spec
from longhaul.tasks.mario.game.options import GameOptions
from longhaul.tasks.mario.payments import TermReward
from longhaul.tasks.mario.rom import find_rom

FORWARD = re.compile(r"\bFORWARD\b", re.IGNORECASE)
"""What a script says for the action that moves Mario farthest."""
STEPS = 12


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


@dataclass(frozen=True, slots=True)
class Probed:
    """How far one action, held all the time, moved Mario from the start."""

    action: int
    name: str
    distance: int
    last_x: int


def probe_actions(
    options: GameOptions, cartridge: Cartridge, *, steps: int = STEPS
) -> tuple[Probed, ...]:
    """Return all actions, the farthest first, each held for `steps` decisions from a stage's start.

    They are tried side by side in separate games.
    """
    plain = replace(options, sticky=0.0, noop_frames=0, script="", trail=0, observation="tiles")
    actions = options.action_set()
    count = len(actions)
    games = GameFactory(plain, cartridge)(count)
    start = ("stage", str(options.lottery().stages[0]))
    games.reset(np.arange(count), np.zeros(count, np.int64), [start] * count)
    begin = games.figures[:, at.X].copy()
    ended = np.zeros(count, np.bool_)
    last = begin.copy()
    for _ in range(steps):
        games.step(0, count, np.arange(count))
        last = np.where(ended, last, games.figures[:, at.X])
        ended |= games.over
        for env in np.flatnonzero(games.over).tolist():
            # Reset so the others can go on; it no longer counts.
            games.reset(np.array([env]), np.zeros(1, np.int64), [start])
    found = [
        Probed(action, name, max(int(last[action] - begin[action]), 0), int(last[action]))
        for action, name in enumerate(actions.names)
    ]
    return tuple(sorted(found, key=lambda one: (-one.distance, one.action)))


def with_forward_action(options: GameOptions, cartridge: Cartridge) -> GameOptions:
    """Return the options with `FORWARD` in their script replaced by the best action."""
    if not FORWARD.search(options.script):
        return options
    best = probe_actions(options, cartridge)[0]
    if best.distance <= 0:
        raise ConfigError(
            f"options.script = {options.script!r}: none of the actions moves Mario forward; name "
            "the buttons instead of FORWARD"
        )
    return replace(options, script=FORWARD.sub(best.name, options.script))


def run_probe(arguments: Sequence[str]) -> str:
    """Return a table of how far each action of a set moves Mario: `probe [SET] [STAGE]`."""
    if len(arguments) > 2:
        raise ConfigError(f"probe takes a set of actions and a stage, not {list(arguments)}")
    name = arguments[0] if arguments else "simple"
    stage = arguments[1] if len(arguments) > 1 else "1-1"
    options = GameOptions(actions=name, stages=(stage,))
    found = probe_actions(options, find_rom().cartridge)
    lines = [f"{'action':12} {'pixels':>6} {'x':>5}   after {STEPS} decisions on {stage}"]
    lines += [f"{one.name:12} {one.distance:6} {one.last_x:5}" for one in found]
    return "\n".join(lines)
