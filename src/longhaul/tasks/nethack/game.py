"""One game of NetHack, played as NLE's `NetHackScore-v0` plays it, without its copies.

NLE's own environment copies every observation at every step. Here the game's buffers are read in
place; a test holds both against each other, step by step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from nle import nethack
from nle.env.base import ASCII_ESC, ASCII_SPACE, SKIP_EXCEPTIONS
from nle.env.tasks import TASK_ACTIONS
from numpy.typing import NDArray

from longhaul.core.errors import EnvError
from longhaul.core.seeds import Seeds
from longhaul.tasks.nethack.eyes.arrays import HP_MAX, SCORE, TURN, Screen

KEYS = ("glyphs", "blstats", "message", "misc", "inv_oclasses", "inv_letters", "inv_glyphs")
DRAWN_KEYS = ("tty_chars", "tty_colors", "tty_cursor")
PROGRAM = "program_state"
IN_MOVELOOP = 3
"""The column of what the program tells of itself that says whether the hero can act."""
WAITS_FOR_KEY, WAITS_FOR_LINE, WAITS_FOR_SPACE = range(3)
"""Columns of the game's modes."""
MOST_OPENING_KEYS = 1000
OTHER_ENDS = {
    nethack.PANICKED: "abort",
    nethack.TRICKED: "abort",
    nethack.QUIT: "abort",
    nethack.ESCAPED: "escaped",
    nethack.ASCENDED: "ascended",
}
"""How a game can end but by death."""


def game_seeds(seed: int) -> tuple[int, int]:
    """Return the seeds of the game's two generators: of what happens and of what is shown."""
    seeds = Seeds(seed)
    return seeds.integer("nethack", "core"), seeds.integer("nethack", "disp")


class Game:
    """A game in a shared library's memory; its observations are the library's own buffers."""

    def __init__(self, character: str, *, drawn: bool = False) -> None:
        keys = (*KEYS, PROGRAM, *(DRAWN_KEYS if drawn else ()))
        self._engine = nethack.Nethack(
            observation_keys=keys,
            playername=f"Agent-{character}",
            ttyrec=None,
            fix_moon_phase=True,
        )
        self._keys = tuple(int(action) for action in TASK_ACTIONS)
        self.screen: Screen
        self.terminal: tuple[NDArray[Any], ...] = ()
        self._program: NDArray[np.int32]
        self._names = keys
        self.score = 0
        """Of the last observation in which the hero was alive."""
        self.turns = 0

    def begin(self, core: int, display: int) -> None:
        """Begin the game of two seeds; the same seeds and keys give the same game."""
        self._engine.set_initial_seeds(core, display, reseed=False)
        self._take(self._engine.reset())
        for _ in range(MOST_OPENING_KEYS):
            if self._program[IN_MOVELOOP]:
                break
            _, over = self._engine.step(ASCII_SPACE)
            if over:
                raise EnvError(f"NetHack with seeds {core} and {display} ended before it began")
        else:
            raise EnvError(
                f"NetHack with seeds {core} and {display} does not come to its first move"
            )
        self.score = int(self.screen.status[SCORE])
        self.turns = int(self.screen.status[TURN])

    def act(self, action: int) -> bool:
        """Send an action's key and answer what the player is not asked; tell if the game is over.

        The observation of a game that is over is empty; `score` and `turns` keep the last ones.
        """
        press = self._engine.step
        _, over = press(self._keys[action])
        modes = self.screen.modes
        while not over and modes.any():
            if modes[WAITS_FOR_SPACE]:
                _, over = press(ASCII_SPACE)
            elif modes[WAITS_FOR_LINE]:
                _, over = press(ASCII_ESC)
            elif self._is_for_the_player():
                break
            else:
                _, over = press(ASCII_ESC)
                break
        status = self.screen.status
        if not over and status[HP_MAX] > 0:
            self.score = int(status[SCORE])
            self.turns = int(status[TURN])
        return bool(over)

    def end_reason(self) -> str:
        """Return how a game that is over ended: by death, mostly."""
        return OTHER_ENDS.get(self._engine.how_done(), "death")

    def close(self) -> None:
        """Free the library's memory and files."""
        self._engine.close()

    def _take(self, buffers: tuple[NDArray[Any], ...]) -> None:
        named = dict(zip(self._names, buffers, strict=True))
        self.screen = Screen(*(named[key] for key in KEYS))
        self.terminal = tuple(named[key] for key in DRAWN_KEYS if key in named)
        self._program = named[PROGRAM]

    def _is_for_the_player(self) -> bool:
        """Whether the open question is one of those NLE lets the player answer."""
        words = self.screen.message.tobytes()
        return any(exception in words for exception in SKIP_EXCEPTIONS)
