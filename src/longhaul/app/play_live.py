"""Playing with the keys of a terminal."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from longhaul.app.play import FRAMES_PER_SECOND, Played, PlayRequest, keep_movie
from longhaul.core.errors import ConfigError
from longhaul.report.terminal import fit, half_blocks
from longhaul.tasks.mario.actions import buttons
from longhaul.tasks.mario.game.movies import Movie
from longhaul.tasks.mario.game.player import Player, outcome
from longhaul.tasks.mario.game.stages import Stage
from longhaul.tasks.mario.rom import find_rom

KEYS = {
    "\x1b[A": "UP",
    "\x1b[B": "DOWN",
    "\x1b[C": "RIGHT",
    "\x1b[D": "LEFT",
    "z": "B",
    "x": "A",
    "\r": "START",
    "\n": "START",
    "\t": "SELECT",
}
QUIT = "q"
HELP = "arrows move, x jumps (A), z runs (B), space lets go, Enter starts and pauses, q ends"
LET_GO = " "
HELD_FRAMES = 20
"""A terminal tells when a key is pressed, not when it is let go: it counts as held for as long as
keyboards wait before they repeat one."""
FRAMES_PER_PICTURE = 3


@dataclass
class Pad:
    """Which buttons are held, as far as a terminal's keys tell."""

    left: dict[str, int] = field(default_factory=dict)  # frames each button stays held
    is_over: bool = False

    def hear(self, keys: str) -> None:
        """Take over what was typed since the last frame."""
        while keys:
            key = next((known for known in KEYS if keys.startswith(known)), keys[0])
            keys = keys[len(key) :]
            if key == QUIT:
                self.is_over = True
            elif key == LET_GO:
                self.left.clear()
            elif key in KEYS:
                self._hold(KEYS[key])

    def _hold(self, button: str) -> None:
        opposite = {"LEFT": "RIGHT", "RIGHT": "LEFT", "UP": "DOWN", "DOWN": "UP"}.get(button, "")
        self.left.pop(opposite, None)
        self.left[button] = HELD_FRAMES

    def next_byte(self) -> int:
        """Return the buttons of the next frame."""
        held = "+".join(self.left) or "NOOP"
        self.left = {button: left - 1 for button, left in self.left.items() if left > 1}
        return buttons(held)


@contextmanager
def raw_keys() -> Iterator[Callable[[], str]]:
    """Give a function that returns what was typed since it was last called, without waiting."""
    if not sys.stdin.isatty():
        raise ConfigError(
            "playing by hand needs a terminal; give --script 'RIGHT+B:180' or --movie FILE"
        )
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)

    def typed() -> str:
        ready, _, _ = select.select([keyboard], [], [], 0)
        return os.read(keyboard, 64).decode(errors="ignore") if ready else ""

    try:
        yield typed
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def play_by_hand(request: PlayRequest, console: Console) -> Played:
    """Play in the terminal until the user has had enough; keep the movie if asked for."""
    rom = find_rom(request.rom)
    stage = Stage.parse(request.stage)
    player = Player(rom.cartridge, stage)
    pad = Pad()
    pressed: list[int] = []
    with raw_keys() as typed, Live(console=console, auto_refresh=False, screen=True) as live:
        due = time.monotonic()
        while not pad.is_over:
            pad.hear(typed())
            pressed.append(pad.next_byte())
            player.press(pressed[-1])
            if player.frames % FRAMES_PER_PICTURE == 0:
                _show(player, live, console)
            due = max(due + 1 / FRAMES_PER_SECOND, time.monotonic() - 0.25)
            time.sleep(max(due - time.monotonic(), 0.0))
    movie = Movie.of(np.array(pressed, np.uint8), stage, rom.cartridge)
    if request.record is not None:
        keep_movie(movie, player, request.record)
    return Played(outcome(movie, player), rom.source, request.record, None)


def _show(player: Player, live: Live, console: Console) -> None:
    told = player.facts()
    words = f"world {told.world}-{told.stage}  x {told.x_pos}  time {told.time}  {HELP}"
    small = fit(player.screen(), columns=console.width, lines=max(console.height - 2, 4))
    live.update(Group(half_blocks(small), Text(words, overflow="ellipsis")))
    live.refresh()
