"""A cartridge: its program, its patterns and how its screens are mirrored."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from longhaul.core.errors import ConfigError

HEADER_BYTES = 16
TRAINER_BYTES = 512
PRG_BANK = 16384
CHR_BANK = 8192
MAGIC = b"NES\x1a"

Mirroring = Literal["horizontal", "vertical"]


class CartridgeError(ConfigError):
    """A file is no cartridge, or only a part of one."""


class UnsupportedCartridgeError(CartridgeError):
    """A cartridge holds chips that these consoles do not have."""


@dataclass(frozen=True, slots=True)
class Cartridge:
    """An NROM cartridge: 16 or 32 KiB of program, 8 KiB of patterns."""

    prg: bytes
    chr: bytes
    mirroring: Mirroring

    def __post_init__(self) -> None:
        if len(self.prg) not in (PRG_BANK, 2 * PRG_BANK):
            raise CartridgeError(f"a program has 16384 or 32768 bytes, not {len(self.prg)}")
        if len(self.chr) != CHR_BANK:
            raise CartridgeError(f"the patterns have {CHR_BANK} bytes, not {len(self.chr)}")

    @property
    def digest(self) -> str:
        """The SHA-256 of program and patterns: the same for all files of one game."""
        return hashlib.sha256(self.prg + self.chr).hexdigest()

    @staticmethod
    def load(path: Path) -> Cartridge:
        """Return the cartridge in a file."""
        try:
            image = path.read_bytes()
        except OSError as error:
            raise CartridgeError(f"cannot read the cartridge {path}: {error.strerror}") from error
        return Cartridge.read(image, name=str(path))

    @staticmethod
    def read(image: bytes, *, name: str = "this file") -> Cartridge:
        """Return the cartridge in an iNES image; what follows its banks is ignored."""
        if image[:4] != MAGIC or len(image) < HEADER_BYTES:
            raise CartridgeError(
                f"{name} is not an NES cartridge: it does not begin with an iNES header "
                f"(bytes 4E 45 53 1A) but with {image[:4].hex(' ').upper() or 'nothing'}"
            )
        header = _clean(image[:HEADER_BYTES])
        _refuse_unsupported(header, name)
        begin = HEADER_BYTES + (TRAINER_BYTES if header[6] & 4 else 0)
        patterns = begin + header[4] * PRG_BANK
        end = patterns + header[5] * CHR_BANK
        if len(image) < end:
            raise CartridgeError(
                f"{name} is cut short: its header promises {end} bytes, there are {len(image)}"
            )
        return Cartridge(
            prg=image[begin:patterns],
            chr=image[patterns:end],
            mirroring="vertical" if header[6] & 1 else "horizontal",
        )

    def image(self) -> bytes:
        """Return the cartridge as an iNES image."""
        flags = 1 if self.mirroring == "vertical" else 0
        header = MAGIC + bytes([len(self.prg) // PRG_BANK, 1, flags]) + bytes(9)
        return header + self.prg + self.chr


def _clean(header: bytes) -> bytes:
    """Return the header without the names that old copiers wrote over its second half."""
    is_nes_2 = header[7] & 0x0C == 0x08
    if not is_nes_2 and any(header[12:16]):
        return header[:7] + bytes(9)
    return header


def _refuse_unsupported(header: bytes, name: str) -> None:
    """Raise for anything but program and patterns in ROM without a mapper."""
    is_nes_2 = header[7] & 0x0C == 0x08
    mapper = header[6] >> 4 | header[7] & 0xF0 | ((header[8] & 0x0F) << 8 if is_nes_2 else 0)
    reasons = {
        f"it uses mapper {mapper}": mapper != 0,
        "it keeps saves in battery-backed memory": bool(header[6] & 2),
        "it has memory for four screens": bool(header[6] & 8),
        "it has no patterns in ROM (CHR RAM)": header[5] == 0,
        f"it has {header[4]} banks of program": header[4] not in (1, 2),
        f"it has {header[5]} banks of patterns": header[5] > 1,
        "it is not for a home console": bool(header[7] & 3),
    }
    found = [reason for reason, present in reasons.items() if present]
    if found:
        raise UnsupportedCartridgeError(
            f"{name} cannot be played: {', '.join(found)}. These consoles take NROM cartridges "
            "(mapper 0, 16 or 32 KiB of program, 8 KiB of patterns in ROM), such as the first "
            "Super Mario Bros."
        )
