"""What the native code is handed beside a console's row: the cartridge and a sheet to draw on.

Both are single records: handing them on is handing on a pointer.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from longhaul.core.env import Array
from longhaul.core.errors import ConfigError
from longhaul.tasks.mario.console.layout import HEIGHT, HORIZONTAL, VERTICAL
from longhaul.tasks.mario.console.machine_code import native_program

HEADER_BYTES = 16
TRAINER_BYTES = 512
PRG_BANK = 16384
CHR_BANK = 8192
MAGIC = b"NES\x1a"

Mirroring = Literal["horizontal", "vertical"]


class CartridgeError(ConfigError):
    """A file is not a cartridge, or only a part of one."""


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


TILES = 512
"""Patterns on a cartridge: two banks of 256."""
LINES = HEIGHT + 1
"""One more than the screen has, to put lines together."""
WORDS = 34
"""Of eight pixels, in a line: the screen and one tile more, cut by the scroll on both sides."""

GAME = np.dtype(
    [
        ("prg", np.uint8, (32768,)),  # the program from $8000 on
        ("chr", np.uint8, (8192,)),  # the patterns as the program sees them
        ("masks", np.uint64, (4096, 2)),  # low and high bits of a pattern's row, a byte each
        ("opacity", np.uint8, (2, 4096)),  # a bit for each pixel that is seen; then flipped
        ("pixels", np.uint8, (4096, 8)),  # 0 to 3
        ("mirroring", np.int64),
        ("code", np.int64),  # where the program is as native code
    ],
    align=True,
)
"""A cartridge, decoded: nothing has to be taken apart while drawing."""

_SHEET = np.dtype(
    [
        ("words", np.uint64, (LINES, WORDS)),  # eight pixels each
        ("tints", np.uint64, (4, 4)),  # what turns masks into shades, for each of four palettes
        ("offset", np.int64, (LINES,)),  # where in its row of bytes a line's first pixel is
        ("opaque", np.uint8, (LINES, 36)),  # bits of pixels the background covers, from byte 0 on
        ("claimed", np.uint8, (LINES, 36)),  # bits of pixels a sprite has taken, from pixel 0 on
        ("crowd", np.uint8, (LINES,)),  # sprites drawn in the line
        ("counts", np.uint8, (272,)),  # sprites in the line, while looking for too many
        ("shades", np.uint8, (64,)),  # what is drawn for each color
        ("drawing", np.uint8, (1,)),  # whether anything is drawn
    ],
    align=True,
)


def _with_bytes(sheet: np.dtype[Any]) -> np.dtype[Any]:
    """Return the record with the memory of `words` a second time, as `bytes`."""
    fields = dict(sheet.fields or {})
    fields["bytes"] = (np.dtype((np.uint8, (LINES, 8 * WORDS))), fields["words"][1])
    return np.dtype(
        {
            "names": list(fields),
            "formats": [field[0] for field in fields.values()],
            "offsets": [field[1] for field in fields.values()],
            "itemsize": sheet.itemsize,
        }
    )


CANVAS = _with_bytes(_SHEET)
"""A picture being drawn, in shades."""

Game: TypeAlias = Any
"""A record of `GAME`."""
Canvas: TypeAlias = Any
"""A record of `CANVAS`."""


class Machine(NamedTuple):
    """All that a console works with beside its row."""

    game: Game
    canvas: Canvas


def decode(cartridge: Cartridge) -> Array:
    """Return the cartridge as the native code wants it, [1] of `GAME`."""
    planes = np.frombuffer(cartridge.chr, np.uint8).reshape(TILES, 2, 8)
    bits = np.unpackbits(planes[..., None], axis=-1)  # [tile, plane, row, column]
    low, high = bits[:, 0].reshape(-1, 8), bits[:, 1].reshape(-1, 8)
    masks = np.stack([low, high], axis=1) * np.uint8(255)  # [tile * row, plane, column]
    covered = low | high
    prg = np.frombuffer(cartridge.prg, np.uint8)
    games = np.zeros(1, GAME)
    game = games[0]
    game["prg"] = np.tile(prg, 32768 // len(prg))
    game["chr"] = np.frombuffer(cartridge.chr, np.uint8)
    game["masks"] = np.ascontiguousarray(masks).view(np.uint64)[..., 0]
    game["opacity"][0] = np.packbits(covered, axis=1)[:, 0]
    game["opacity"][1] = np.packbits(covered[:, ::-1], axis=1)[:, 0]
    game["pixels"] = low + 2 * high
    game["mirroring"] = VERTICAL if cartridge.mirroring == "vertical" else HORIZONTAL
    game["code"] = native_program(game["prg"].tobytes())
    return games


def new_canvases(members: int) -> Array:
    """Return two sheets for each of some threads, [members, 2] of `CANVAS`."""
    return np.zeros((members, 2), CANVAS)
