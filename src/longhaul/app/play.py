"""Playing a game by hand, by a script or by a movie, and recording what was pressed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from longhaul.core.errors import ConfigError
from longhaul.report.film import Film, Picture, encode
from longhaul.runs.durable import storage_errors
from longhaul.tasks.mario.game.movies import Movie, load_movie, write_movie
from longhaul.tasks.mario.game.player import (
    Outcome,
    Player,
    check_cartridge,
    frames_of,
    outcome,
)
from longhaul.tasks.mario.game.scripts import script_bytes
from longhaul.tasks.mario.game.stages import Stage
from longhaul.tasks.mario.rom import Rom, find_rom

FRAMES_PER_SECOND = 60.0
GIF_STRIDE = 3
ENLARGED = 2
"""A screen of 256 x 240 is small on today's."""


@dataclass(frozen=True, slots=True)
class PlayRequest:
    """What to play and what to keep of it."""

    task: str = "mario"
    stage: str = "1-1"
    script: str = ""
    movie: Path | None = None
    record: Path | None = None
    film: Path | None = None
    rom: str = ""

    def __post_init__(self) -> None:
        if self.task != "mario":
            raise ConfigError(f"{self.task!r} cannot be played by hand; 'mario' can")
        if self.script and self.movie is not None:
            raise ConfigError("give a script or a movie, not both")

    @property
    def is_by_hand(self) -> bool:
        """Whether there is nothing to play but keys."""
        return not self.script and self.movie is None


@dataclass(frozen=True, slots=True)
class Played:
    """How it went and what was kept."""

    outcome: Outcome
    rom: str
    record: Path | None
    film: Film | None

    def as_text(self) -> str:
        """Return a few lines for people."""
        told = self.outcome.facts
        lines = [
            f"{self.outcome.frames} frames: world {told.world}-{told.stage}, x {told.x_pos}, "
            f"score {told.score}, coins {told.coins}, time {told.time}, {told.status}"
            + (", dying" if told.dying else "")
            + (", stage cleared" if told.flag_get else "")
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
