"""Random scenes and the stand-in cartridge, shown by our console and by two others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from longhaul.tasks.mario.console.game import Cartridge, Mirroring
from longhaul.tasks.mario.console.standin_rom import program, stand_in
from tests.tasks.mario.console.oracles.comparison import Bytes, Colors, Oracle, Ours, Pixels
from tests.tasks.mario.console.oracles.found import FCEUMM, NES_PY
from tests.tasks.mario.console.oracles.libretro import LibretroConsole
from tests.tasks.mario.console.oracles.nes_py import NesPyConsole
from tests.tasks.mario.console.programs import gallery
from tests.tasks.mario.console.test_drawing import chips

pytestmark = [pytest.mark.emulator, pytest.mark.oracle]

EXHIBIT, AGE = 0x11, 0x12
STABLE = 6
"""Frames after which a scene is on the screen for certain."""
BOTH_SHOWN = (0x1E, 0x1C, 0x1A, 0x18, 0x1E, 0x1C, 0x1A, 0x18)
"""nes-py scrolls only while background and sprites are shown."""
ALL_KINDS = (0x1E, 0x1C, 0x1A, 0x18, 0x1E, 0x0A, 0x14, 0x08)
FRAME_COUNTER = 0x09
BOOT = 20
"""Frames after which the stand-in shows its title for certain, and its counter is below that."""


def visit(console: Oracle | Ours, frames: int) -> dict[int, tuple[Bytes, Pixels]]:
    """Return what memory and screen hold while each scene is shown."""
    found: dict[int, tuple[Bytes, Pixels]] = {}
    for _ in range(frames):
        console.step(0)
        if console.ram[AGE] == STABLE and console.ram[EXHIBIT] > 0:
            found[int(console.ram[EXHIBIT])] = (console.ram.copy(), console.screen())
    return found


def compare(ours: Ours, other: Oracle, frames: int) -> int:
    """Compare two visits; return how many scenes both saw."""
    mine, theirs = visit(ours, frames), visit(other, frames)
    colors = Colors()
    shared = sorted(mine.keys() & theirs.keys())
    for number in shared:
        (ram, numbers), (other_ram, seen) = mine[number], theirs[number]
        outside_stack = np.r_[0:0x1C0, 0x200:0x800]
        np.testing.assert_array_equal(ram[outside_stack], other_ram[outside_stack], f"{number}")
        pixels = seen.astype(np.int64)
        colors.learn(numbers, pixels)
        wrong = np.argwhere(colors.of(numbers) != pixels)
        assert len(wrong) == 0, f"scene {number}: {len(wrong)} pixels, first {wrong[0]}"
    return len(shared)


@pytest.mark.parametrize("mirroring", ["vertical", "horizontal"])
def test_random_scenes_look_as_on_fceumm(mirroring: Mirroring) -> None:
    library = FCEUMM.path_or_skip()
    cartridge = Cartridge(gallery(ALL_KINDS).image, chips(2), mirroring)
    other = LibretroConsole(library, cartridge.image())
    assert compare(Ours(cartridge), other, 400) >= 30


@pytest.mark.parametrize("mirroring", ["vertical", "horizontal"])
def test_random_scenes_look_as_on_nes_py(mirroring: Mirroring, tmp_path: Path) -> None:
    library = NES_PY.path_or_skip()
    cartridge = Cartridge(gallery(BOTH_SHOWN).image, chips(2), mirroring)
    file = tmp_path / "gallery.nes"
    file.write_bytes(cartridge.image())
    other = NesPyConsole(library, file)
    assert compare(Ours(cartridge), other, 400) >= 30
    other.close()


def test_the_stand_in_plays_as_on_fceumm() -> None:
    library = FCEUMM.path_or_skip()
    ours, other = Ours(stand_in()), LibretroConsole(library, stand_in().image())
    for console in (ours, other):
        for _ in range(BOOT):
            console.step(0)
        while console.ram[FRAME_COUNTER] < BOOT:
            console.step(0)
    random = np.random.default_rng(1)
    colors = Colors()
    held, loading = 0x08, 0
    for frame in range(800):
        if frame % 12 == 11:
            held = int(random.choice([0x80, 0x82, 0x83, 0x81, 0x83, 0x40, 0x08]))
        ours.step(held)
        other.step(held)
        if ours.pc != program().names["forever"]:
            # A stage is being loaded; frames end at different instructions of it.
            loading += 1
            continue
        differs = np.flatnonzero(ours.ram != other.ram)
        differs = differs[(differs < 0x100) | (differs >= 0x200)]
        assert len(differs) == 0, f"frame {frame}: {[f'${place:04X}' for place in differs[:8]]}"
        if frame % 25 == 24:
            numbers, pixels = ours.screen(), other.screen().astype(np.int64)
            colors.learn(numbers, pixels)
            wrong = np.argwhere(colors.of(numbers) != pixels)
            assert len(wrong) == 0, f"frame {frame}: {len(wrong)} pixels, first {wrong[0]}"
    assert loading < 40
