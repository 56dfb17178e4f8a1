"""Finding the user's copy of the game, and checking that it is the game."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from longhaul.core.errors import EnvError
from longhaul.tasks.mario.console.game import Cartridge, CartridgeError
from longhaul.tasks.mario.console.standin_rom import stand_in

VARIABLE = "LONGHAUL_SMB_ROM"
PACKAGE = "gym-super-mario-bros"
FILE_IN_PACKAGE = "super-mario-bros.nes"
STAND_IN = "standin"
"""What `options.rom` says for the free cartridge that comes with longhaul."""

PROGRAMS = {
    "fefa1097449a3a11ebf8c6199e905996c5dc8fbd": "the cartridge",
    "31b332f6bc338e058a7b958dca285066c405b697": "the copy in gym-super-mario-bros",
}
"""SHA-1 of the programs that have every address where this folder looks for it. Their patterns may
differ: what is drawn changes nothing in the game."""

WAYS = (
    f"Super Mario Bros. is not free and does not come with longhaul. Use your own copy: "
    f"set options.rom (or --rom) to the .nes file, or the variable {VARIABLE}, or "
    f"pip install --no-deps {PACKAGE}==7.4.0; or play the free stand-in: options.rom = '{STAND_IN}'"
)


class RomError(EnvError):
    """There is no usable copy of the game."""


@dataclass(frozen=True, slots=True)
class Rom:
    """A copy of the game and where it was found."""

    cartridge: Cartridge
    source: str


def find_rom(given: str = "", variables: Mapping[str, str] = os.environ) -> Rom:
    """Return the game from where the user says it is, or from where it can be found.

    A copy that is named is used or refused, never replaced by another one.
    """
    if given == STAND_IN:
        return Rom(stand_in(), "the free stand-in cartridge")
    if given:
        return _checked(Path(given).expanduser(), f"options.rom = {given!r}")
    if variables.get(VARIABLE):
        return _checked(Path(variables[VARIABLE]).expanduser(), VARIABLE)
    packaged = packaged_rom()
    if packaged is None:
        raise RomError(WAYS)
    return _checked(packaged, f"the installed package {PACKAGE}")


def packaged_rom(package: str = PACKAGE) -> Path | None:
    """Return the game's file inside an installed package, whose code is never imported."""
    try:
        files = importlib.metadata.distribution(package).files or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = (Path(str(file.locate())) for file in files if file.name == FILE_IN_PACKAGE)
    return next((path for path in found if path.is_file()), None)


def _checked(path: Path, origin: str) -> Rom:
    try:
        cartridge = Cartridge.load(path)
    except CartridgeError as error:
        raise RomError(f"{origin}: {error}") from error
    program = hashlib.sha1(cartridge.prg, usedforsecurity=False).hexdigest()
    if program not in PROGRAMS:
        raise RomError(
            f"{origin}: {path} is a cartridge, but not Super Mario Bros. as it was sold for the "
            f"NES (SHA-1 of its program: {program}); modified copies use other memory addresses"
        )
    return Rom(cartridge, str(path))
