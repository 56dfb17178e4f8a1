from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from longhaul.tasks.mario.console import layout, machine_code
from longhaul.tasks.mario.console.consoles import Consoles
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.console.machine_code import native_program

LDA, STA, JMP = 0xA9, 0x85, 0x4C


def program(value: int) -> bytes:
    """Return a cartridge that writes a number to address $10 and waits."""
    prg = bytearray(0x8000)
    prg[:7] = bytes([LDA, value, STA, 0x10, JMP, 0x04, 0x80])
    prg[0x7FFA:] = bytes([0x00, 0x80] * 3)
    return bytes(prg)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which native code is kept."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    native_program.cache_clear()
    return tmp_path / "cache"


def written(value: int) -> int:
    consoles = Consoles(Cartridge(program(value), bytes(8192), "vertical"), 1)
    consoles.step(np.zeros(1, np.uint8), draw=False)
    assert consoles.registers[0, layout.PC] == 0x8004
    return int(consoles.ram[0, 0x10])


def test_a_program_is_compiled_once_per_machine(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native_program(program(11))
    assert len(list(cache.iterdir())) == 1
    native_program.cache_clear()

    def refuse(prg: bytes) -> bytes:
        raise AssertionError(f"compiled again: {len(prg)} bytes")

    monkeypatch.setattr(machine_code, "_compile", refuse)
    assert native_program(program(11))


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 5000])
def test_damaged_native_code_is_made_again(cache: Path, damage: bytes) -> None:
    native_program(program(12))
    kept = next(cache.iterdir())
    whole = kept.read_bytes()
    kept.write_bytes(damage)
    native_program.cache_clear()
    assert native_program(program(12))
    assert kept.read_bytes() == whole


def test_other_programs_are_other_code(cache: Path) -> None:
    first, second = native_program(program(1)), native_program(program(2))
    assert first != second
    assert len(list(cache.iterdir())) == 2


@pytest.mark.usefixtures("cache")
def test_consoles_run_the_native_code_of_their_cartridge() -> None:
    assert [written(3), written(4)] == [3, 4]


def test_a_folder_that_cannot_be_written_is_no_harm(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write_bytes(b"in the way")
    monkeypatch.setattr(machine_code, "_cache_folders", lambda: iter([cache]))
    assert native_program(program(13))
