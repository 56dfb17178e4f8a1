"""The game for tests that need it; they skip, and say why, where there is none."""

from __future__ import annotations

import pytest

from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.rom import RomError, find_rom


def game_or_skip() -> Cartridge:
    try:
        return find_rom().cartridge
    except RomError as error:
        pytest.skip(f"no ROM: {error}")
