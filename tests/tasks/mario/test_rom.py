"""Finding the user's copy of the game."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest

from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.rom import PACKAGE, VARIABLE, RomError, find_rom, packaged_rom

OTHER = Cartridge(bytes(32768), bytes(8192), "vertical")


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> importlib.metadata.Distribution:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)


@pytest.mark.usefixtures("no_package")
def test_without_a_copy_all_ways_to_one_are_told_in_one_line() -> None:
    with pytest.raises(RomError) as refusal:
        find_rom(variables={})
    words = str(refusal.value)
    assert refusal.value.exit_code == 3
    assert all(way in words for way in ("options.rom", VARIABLE, PACKAGE, "--no-deps"))
    assert "\n" not in words


@pytest.mark.usefixtures("no_package")
@pytest.mark.parametrize("through", ["option", "variable"])
def test_a_cartridge_that_is_another_game_is_refused(tmp_path: Path, through: str) -> None:
    path = tmp_path / "other game.nes"
    path.write_bytes(OTHER.image())
    given, variables = (str(path), {}) if through == "option" else ("", {VARIABLE: str(path)})
    with pytest.raises(RomError, match="not Super Mario Bros"):
        find_rom(given, variables)


@pytest.mark.parametrize("content", [b"", b"no cartridge", OTHER.image()[:-1]])
def test_a_file_that_is_no_cartridge_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.nes"
    path.write_bytes(content)
    with pytest.raises(RomError, match=r"options\.rom"):
        find_rom(str(path), {})


def test_a_named_file_that_is_missing_is_not_replaced_by_another_copy(tmp_path: Path) -> None:
    with pytest.raises(RomError, match="cannot read"):
        find_rom(str(tmp_path / "missing.nes"))


@pytest.mark.emulator
def test_the_packages_copy_is_found_without_importing_it(cartridge: Cartridge) -> None:
    path = packaged_rom()
    if path is None:
        pytest.skip(f"no ROM: {PACKAGE} is not installed")
    assert find_rom(variables={}).source == str(path)
    assert "gym_super_mario_bros" not in sys.modules


@pytest.mark.emulator
def test_headers_of_old_copiers_and_overdumps_are_seen_through(
    cartridge: Cartridge, tmp_path: Path
) -> None:
    image = cartridge.image()
    path = tmp_path / "overdump.nes"
    path.write_bytes(image[:7] + b"DiskDude!" + image[16:] + b"\xff" * 8192)
    assert find_rom(str(path), {}).cartridge == cartridge
    path.write_bytes(image)
    assert find_rom(variables={VARIABLE: str(path)}).cartridge == cartridge
