"""The preprocessing of Atari games, as named options, and the names of the games."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longhaul.core.errors import ConfigError, suggestion


@dataclass(frozen=True, slots=True)
class AtariOptions:
    """What of a game is played and shown; the defaults are the preprocessing most papers use."""

    noop_max: int = 30
    """A game begins with 1 to so many frames without an action; 0 begins it at once."""
    frame_skip: int = 4
    """Frames an action lasts. The picture is the brighter one of the last two, pixel by pixel."""
    sticky: float = 0.0
    """Probability, in each frame, that the action before is repeated; 0.25 in Machado et al."""
    size: int = 84
    """Height and width of the gray picture."""
    stack: int = 4
    """How many of the latest pictures are shown, oldest first."""
    episodic_life: bool = True
    """Whether losing a life ends what is learned from as one episode. The game goes on: its return
    is always the whole game's."""
    press_fire: bool = True
    """Whether FIRE is pressed at the beginning and after a lost life, in games with that action."""
    all_actions: bool = False
    """Whether all 18 actions of the joystick may be taken, not only those the game uses."""
    max_frames: int = 108_000
    """Frames after which a game is cut: half an hour."""

    def __post_init__(self) -> None:
        for name, value, least in (
            ("noop_max", self.noop_max, 0),
            ("frame_skip", self.frame_skip, 1),
            ("size", self.size, 1),
            ("stack", self.stack, 1),
            ("max_frames", self.max_frames, 1),
        ):
            if value < least:
                raise ConfigError(f"options.{name} = {value} must be at least {least}")
        if self.size > MOST_SIZE:
            raise ConfigError(f"options.size = {self.size} must be at most {MOST_SIZE}")
        if not 0 <= self.sticky < 1:
            raise ConfigError(f"options.sticky = {self.sticky} must be at least 0 and below 1")


MOST_SIZE = 160
"""Pixels across an Atari's screen: pictures are made smaller."""


def ale() -> Any:
    """Return the module of the Arcade Learning Environment, without its banner."""
    try:
        import ale_py
    except ImportError as error:
        raise ConfigError(
            "Atari games need ale-py, which is not installed: pip install 'longhaul-rl[atari]'"
        ) from error
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    return ale_py


def find_game(name: str) -> Path:
    """Return the cartridge of a game, named as in `Pong`, `MsPacman` or `ms_pacman`."""
    if not name:
        raise ConfigError("task 'atari' needs a game, for example atari:Pong")
    emulator = ale()
    known = {game.replace("_", ""): game for game in emulator.roms.get_all_rom_ids()}
    if (game := known.get(re.sub("[_-]", "", name).lower())) is None:
        titles = [game.title().replace("_", "") for game in known.values()]
        raise ConfigError(f"there is no Atari game {name!r}{suggestion(name, titles)}")
    path = Path(emulator.roms.get_rom_path(game))
    # Loading a game for two players ends the process.
    if emulator.ALEInterface.isSupportedROM(path) is None:
        raise ConfigError(f"the Atari game {name!r} cannot be played by one player")
    return path
