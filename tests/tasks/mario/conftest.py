"""What the tests of the game share."""

from __future__ import annotations

import pytest

from longhaul.tasks.mario.console.game import Cartridge
from tests.tasks.mario.cartridges import game_or_skip


@pytest.fixture(scope="session")
def cartridge() -> Cartridge:
    return game_or_skip()
