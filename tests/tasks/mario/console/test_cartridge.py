from __future__ import annotations

from pathlib import Path

import pytest

from longhaul.core.errors import ConfigError
from longhaul.tasks.mario.console.game import (
    MAGIC,
    Cartridge,
    CartridgeError,
    UnsupportedCartridgeError,
)

PRG, CHR = bytes(range(256)) * 64, bytes(range(255, -1, -1)) * 32


def image(*, flags_6: int = 0, flags_7: int = 0, banks: tuple[int, int] = (1, 1)) -> bytes:
    header = MAGIC + bytes([banks[0], banks[1], flags_6, flags_7]) + bytes(8)
    return header + PRG * banks[0] + CHR * banks[1]


def test_a_cartridge_is_read_back_as_it_was_written() -> None:
    cartridge = Cartridge(PRG * 2, CHR, "horizontal")
    assert Cartridge.read(cartridge.image()) == cartridge


def test_the_mirroring_is_in_the_header() -> None:
    assert Cartridge.read(image(flags_6=1)).mirroring == "vertical"
    assert Cartridge.read(image(flags_6=0)).mirroring == "horizontal"


def test_a_trainer_is_skipped() -> None:
    whole = image(flags_6=4)
    assert Cartridge.read(whole[:16] + bytes(512) + whole[16:]).prg == PRG


def test_what_follows_the_banks_is_ignored() -> None:
    plain = Cartridge.read(image())
    assert Cartridge.read(image() + b"dumped by somebody").digest == plain.digest


def test_names_in_old_headers_do_not_make_a_mapper() -> None:
    whole = bytearray(image())
    whole[7:16] = b"DiskDude!"
    assert Cartridge.read(bytes(whole)).prg == PRG


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (image(flags_6=0x10), "mapper 1"),
        (image(flags_7=0x40), "mapper 64"),
        (image(flags_6=2), "battery"),
        (image(flags_6=8), "four screens"),
        (image(banks=(1, 0)), "CHR RAM"),
        (image(banks=(4, 1)), "4 banks of program"),
        (image(banks=(2, 2)), "2 banks of patterns"),
        (image(flags_7=1), "home console"),
    ],
)
def test_chips_that_consoles_do_not_have_are_refused(given: bytes, words: str) -> None:
    with pytest.raises(UnsupportedCartridgeError, match=words):
        Cartridge.read(given, name="game.nes")


@pytest.mark.parametrize("given", [b"", b"NES", b"PK\x03\x04" + bytes(100), MAGIC])
def test_other_files_are_refused(given: bytes) -> None:
    with pytest.raises(CartridgeError, match="not an NES cartridge"):
        Cartridge.read(given)


def test_a_file_that_is_cut_short_says_by_how_much() -> None:
    with pytest.raises(CartridgeError, match=r"promises 24592 bytes, there are 24000"):
        Cartridge.read(image()[:24000])


def test_a_missing_file_is_an_error_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        Cartridge.load(tmp_path / "no.nes")


def test_a_cartridge_of_the_wrong_size_cannot_be_made() -> None:
    with pytest.raises(CartridgeError, match="16384 or 32768"):
        Cartridge(b"", CHR, "vertical")
    with pytest.raises(CartridgeError, match="8192"):
        Cartridge(PRG, b"", "vertical")
