"""Playing movies and scripts on one console, a frame at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array
from longhaul.core.errors import ConfigError
from longhaul.core.labor import Labor
from longhaul.core.native import fetch
from longhaul.tasks.mario.console.consoles import Consoles
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.game.memory import (
    HELD_A,
    HELD_B,
    HELD_BUTTONS,
    Bytes,
    Facts,
    facts,
    game_stamp,
)
from longhaul.tasks.mario.game.movies import DIGEST_DIGITS, POWER, RESET, Movie, memory_digest
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
        """Return the facts of the game."""
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
        """Return the last frame in color, [240, 256, 3]."""
        if not self.frames:
            raise ConfigError("there is no picture before the first frame")
        return self._console.screen(0)


@dataclass(frozen=True, slots=True)
class GameOutcome:
    """Where a movie led."""

    frames: int
    facts: Facts
    digest: str
    same: bool | None
    """Whether the replay ended where the recording did; None if the movie does not say."""


def check_cartridge(movie: Movie, cartridge: Cartridge) -> None:
    """Refuse a movie that was recorded with another cartridge."""
    here = cartridge.digest[:DIGEST_DIGITS]
    if movie.cartridge and movie.cartridge != here:
        raise ConfigError(
            f"the movie was recorded with cartridge {movie.cartridge}, this is {here}: "
            "the replay would differ"
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


def outcome(movie: Movie, player: Player) -> GameOutcome:
    """Return where a movie that was played led."""
    digest = memory_digest(player.ram)
    same = None if not movie.end_digest else movie.end_digest == digest
    return GameOutcome(player.frames, player.facts(), digest, same)


MASK = (1 << 64) - 1


def begin_stream(generator: NDArray[np.uint64], env: int, seed: int) -> None:
    """Begin the stream of `seed`; splitmix spreads small seeds over all bits."""
    word = (seed + 0x9E3779B97F4A7C15) & MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    generator[env] = (word ^ (word >> 31)) or 1


def draw_once(generator: NDArray[np.uint64], env: int) -> float:
    """Return the next number in [0, 1) of a game's stream: the same as `course.draw`."""
    word = int(generator[env])
    word ^= word >> 12
    word = (word ^ (word << 25)) & MASK
    word ^= word >> 27
    generator[env] = word
    return ((word * 0x2545F4914F6CDD1D & MASK) >> 40) / 16777216.0


HELD_SIZE = 2
"""A and B."""


class Holding(NamedTuple):
    """The names of buttons, as they are read and written."""

    consoles: Array  # [N, SIZE] uint8, whose memory comes first
    held: Array  # [N, HELD_SIZE] float32


def _build(stamp: int) -> Labor:
    def show_held(pointer: Any, index: int, member: int) -> int:
        """Write 1 for a button that was held in the last frame, 0 for one that was not."""
        _ = stamp
        holding = fetch(pointer)
        buttons = holding.consoles[index, HELD_BUTTONS]
        holding.held[index, 0] = 1.0 if buttons & HELD_A else 0.0
        holding.held[index, 1] = 1.0 if buttons & HELD_B else 0.0
        return 0

    return show_held


show_held = _build(game_stamp())
