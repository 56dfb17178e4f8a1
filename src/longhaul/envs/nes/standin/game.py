"""The stand-in cartridge: a game of our own that keeps its figures where Super Mario Bros. does.

A runner has to get to the pole at the right end of a stage, over pits and past walkers. It is there
for tests, demonstrations and machines without the real game.
"""

from __future__ import annotations

import functools
import importlib.resources

from longhaul.envs.nes.cartridge import Cartridge
from longhaul.envs.nes.standin.assembler import Program, assemble
from longhaul.envs.nes.standin.patterns import patterns


@functools.cache
def program() -> Program:
    """Return the game's program, assembled from its source."""
    folder = importlib.resources.files("longhaul.envs.nes.standin") / "source"
    parts = sorted((part for part in folder.iterdir()), key=lambda part: part.name)
    return assemble("\n".join(part.read_text(encoding="utf-8") for part in parts))


@functools.cache
def stand_in() -> Cartridge:
    """Return the cartridge."""
    return Cartridge(program().image, patterns(), "vertical")
