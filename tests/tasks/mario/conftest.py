"""What the tests of the game share."""

from __future__ import annotations

import pytest

from longhaul.envs.nes.cartridge import Cartridge
from tests.tasks.mario.cartridges import game_or_skip


@pytest.fixture(scope="session")
def cartridge() -> Cartridge:
    return game_or_skip()
