"""Playing a game by hand, by a script or by a movie, and recording what was pressed."""

from __future__ import annotations

import json
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from longhaul.core.errors import ConfigError
from longhaul.report.film import Film, Picture, encode, fit, half_blocks
from longhaul.runs.durable import storage_errors
from longhaul.tasks.mario.actions import buttons
from longhaul.tasks.mario.game.movies import Movie, load_movie, script_bytes, write_movie
from longhaul.tasks.mario.game.player import (
    GameOutcome,
    Player,
    check_cartridge,
    frames_of,
    outcome,
)
from longhaul.tasks.mario.game.stages import Stage
from longhaul.tasks.mario.rom import Rom, find_rom

FRAMES_PER_SECOND = 60.0
GIF_STRIDE = 3
ENLARGED = 2
"""A screen of 256 x 240 is small on today's."""


@dataclass(frozen=True, slots=True)
class PlayRequest:
    """What to play and what to keep of it."""

    stage: str = "1-1"
    script: str = ""
    movie: Path | None = None
    record: Path | None = None
    film: Path | None = None
    rom: str = ""

    def __post_init__(self) -> None:
        if self.script and self.movie is not None:
            raise ConfigError("give a script or a movie, not both")

    @property
    def is_by_hand(self) -> bool:
        """Whether there is nothing to play but keys."""
        return not self.script and self.movie is None


@dataclass(frozen=True, slots=True)
class Played:
    """How it went and what was kept."""

    outcome: GameOutcome
    rom: str
    record: Path | None
    film: Film | None

    def as_text(self) -> str:
        """Return a few lines for people."""
        facts = self.outcome.facts
        lines = [
            f"{self.outcome.frames} frames: world {facts.world}-{facts.stage}, x {facts.x_pos}, "
            f"score {facts.score}, coins {facts.coins}, time {facts.time}, {facts.status}"
            + (", dying" if facts.dying else "")
            + (", stage cleared" if facts.flag_get else "")
        ]
        if self.outcome.same is not None:
            same = "the end it was recorded with" if self.outcome.same else "ANOTHER END than then"
            lines.append(f"it came to {same}")
        if self.record is not None:
            lines.append(f"movie: {self.record}")
        if self.film is not None:
            lines.append(f"film: {self.film.path}, {self.film.seconds:.1f} s")
        return "\n".join(lines)

    def as_json(self) -> str:
        """Return plain values for programs."""
        return json.dumps(
            {
                "frames": self.outcome.frames,
                "same": self.outcome.same,
                "digest": self.outcome.digest,
                **asdict(self.outcome.facts),
                "movie": None if self.record is None else str(self.record),
                "film": None if self.film is None else str(self.film.path),
            }
        )


def play(request: PlayRequest) -> Played:
    """Play a script or a movie to its end; write the movie and the film that were asked for."""
    rom = find_rom(request.rom)
    movie = _movie(request, rom)
    check_cartridge(movie, rom.cartridge)
    player = Player(rom.cartridge, movie.start)
    film: Film | None = None
    if request.film is None:
        for _ in frames_of(movie, player):
            pass
    else:
        is_gif = request.film.suffix.lower() == ".gif"
        stride = GIF_STRIDE if is_gif else 1
        with storage_errors(request.film):
            film = encode(
                _pictures(movie, player, stride),
                request.film,
                frames_per_second=FRAMES_PER_SECOND / stride,
            )
    if request.record is not None:
        keep_movie(movie, player, request.record)
    return Played(outcome(movie, player), rom.source, request.record, film)


def keep_movie(movie: Movie, player: Player, path: Path) -> None:
    """Write a movie that was played, with where it led."""
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(write_movie(movie.ended(player.ram)), encoding="utf-8")


def _movie(request: PlayRequest, rom: Rom) -> Movie:
    if request.movie is not None:
        return load_movie(request.movie)
    return Movie.of(script_bytes(request.script), Stage.parse(request.stage), rom.cartridge)


def _pictures(movie: Movie, player: Player, stride: int) -> Iterator[Picture]:
    for frame in frames_of(movie, player):
        if frame % stride == 0:
            yield enlarged(player.screen())


def enlarged(picture: Picture) -> Picture:
    """Return the picture with every pixel twice as wide and high."""
    large: Picture = np.repeat(np.repeat(picture, ENLARGED, 0), ENLARGED, 1)
    return large


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
"""A terminal reports a pressed key, but not its release: it counts as held for as long as
keyboards wait before they repeat one."""
FRAMES_PER_PICTURE = 3


@dataclass
class Pad:
    """Which buttons are held, as far as a terminal reports keys."""

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
    facts = player.facts()
    words = f"world {facts.world}-{facts.stage}  x {facts.x_pos}  time {facts.time}  {HELP}"
    small = fit(player.screen(), columns=console.width, lines=max(console.height - 2, 4))
    live.update(Group(half_blocks(small), Text(words, overflow="ellipsis")))
    live.refresh()
