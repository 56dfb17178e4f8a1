"""Where the oracles and the game are on this machine; tests skip, and say why, without them.

`make peers-mario` puts the oracles into `.venv-peers`. Their Python code is never imported: only
the compiled cores are opened.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.rom import RomError, find_rom

PEERS = Path(__file__).resolve().parents[5] / ".venv-peers"


@dataclass(frozen=True)
class Library:
    """A compiled core in somebody else's package."""

    variable: str
    package: str
    pattern: str

    def path_or_skip(self) -> Path:
        """Return the file that the variable names, or the one that `make peers-mario` installed."""
        if named := os.environ.get(self.variable):
            return Path(named)
        found = sorted(PEERS.glob(f"lib/python3*/site-packages/{self.pattern}"))
        if not found:
            pytest.skip(
                f"no oracle: {self.package} is not in .venv-peers (make peers-mario puts it there) "
                f"and {self.variable} names no file"
            )
        return found[0]


FCEUMM = Library("LONGHAUL_FCEUMM", "stable-retro", "stable_retro/cores/fceumm_libretro.so")
NES_PY = Library("LONGHAUL_NES_PY", "nes-py", "nes_py/lib_nes_env*.so")


def game_or_skip() -> Cartridge:
    """Return the true game."""
    try:
        return find_rom().cartridge
    except RomError as error:
        pytest.skip(f"no ROM: {error}")
