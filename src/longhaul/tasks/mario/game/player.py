"""Playing movies and scripts on one console, a frame at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from longhaul.core.errors import ConfigError
from longhaul.envs.nes.cartridge import Cartridge
from longhaul.envs.nes.consoles import Consoles
from longhaul.tasks.mario.game.memory import Bytes, Facts, facts
from longhaul.tasks.mario.game.movies import (
    DIGEST_DIGITS,
    POWER,
    RESET,
    Movie,
    memory_digest,
)
from longhaul.tasks.mario.game.stages import Stage
from longhaul.tasks.mario.game.starts import stage_start

ONE = np.arange(1)


class Player:
    """One console that is played by hand: nothing is skipped, nothing ends by itself."""

    def __init__(self, cartridge: Cartridge, start: Stage | None) -> None:
        self._console = Consoles(cartridge, 1)
        if start is not None:
            self._console.states[0] = stage_start(cartridge, start)
        self._buttons = np.zeros((1, 2), np.uint8)
        self.frames = 0

    @property
    def ram(self) -> Bytes:
        """The memory, [2048]."""
        ram: Bytes = self._console.ram[0]
        return ram

    def facts(self) -> Facts:
        """Return what is to tell of the game."""
        return facts(self.ram)

    def press(self, first: int, second: int = 0) -> None:
        """Let one frame pass with these buttons held."""
        self._buttons[0] = first, second
        self._console.step(self._buttons, draw=False)
        self.frames += 1

    def restart(self, command: int) -> None:
        """Switch the console off and on, or press its reset button."""
        if command & POWER:
            self._console.power_on(ONE)
        elif command & RESET:
            self._console.reset(ONE)

    def screen(self) -> Bytes:
        """Return the last frame in colour, [240, 256, 3]."""
        if not self.frames:
            raise ConfigError("there is no picture before the first frame")
        return self._console.screen(0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a movie led."""

    frames: int
    facts: Facts
    digest: str
    same: bool | None
    """Whether it led to where it did when it was recorded; None if the movie does not tell."""


def check_cartridge(movie: Movie, cartridge: Cartridge) -> None:
    """Refuse a movie that was recorded with another cartridge."""
    here = cartridge.digest[:DIGEST_DIGITS]
    if movie.cartridge and movie.cartridge != here:
        raise ConfigError(
            f"the movie was recorded with cartridge {movie.cartridge}, this is {here}: "
            "it would not go the same way"
        )


def frames_of(movie: Movie, player: Player) -> Iterator[int]:
    """Play a movie; yield the number of each frame when it is over."""
    columns = zip(
        movie.pressed.tolist(), movie.second_pad.tolist(), movie.commands.tolist(), strict=True
    )
    sleeping = movie.warm_up
    for frame, (first, second, command) in enumerate(columns):
        # The console has just been switched on: a reset in the first frame changes nothing.
        if command and frame:
            player.restart(command)
            sleeping = movie.warm_up
        if sleeping:
            sleeping -= 1
            continue
        player.press(first, second)
        yield frame


def outcome(movie: Movie, player: Player) -> Outcome:
    """Return where a movie that was played led."""
    digest = memory_digest(player.ram)
    same = None if not movie.end_digest else movie.end_digest == digest
    return Outcome(player.frames, player.facts(), digest, same)


def play_movie(movie: Movie, cartridge: Cartridge) -> Outcome:
    """Play a movie to its end."""
    check_cartridge(movie, cartridge)
    player = Player(cartridge, movie.start)
    for _ in frames_of(movie, player):
        pass
    return outcome(movie, player)
