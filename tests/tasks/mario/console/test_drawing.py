"""Pictures and flags of the video chip against a literal reference, over random scenes."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import numpy as np
import pytest

from longhaul.tasks.mario.console import layout
from longhaul.tasks.mario.console.consoles import Bytes, Consoles
from longhaul.tasks.mario.console.game import Cartridge, Mirroring
from longhaul.tasks.mario.console.standin_rom import assemble
from tests.tasks.mario.console.reference_picture import (
    HEIGHT,
    Scene,
    draw_line,
    first_hit,
    overflows,
    sprites_in,
)

IDLE = assemble("forever: jmp forever\n.org $fffa\n.word forever, forever, forever").image
SHOW_ALL, NO_LEFT_BACKGROUND, NO_LEFT_SPRITES, NEITHER = 0x1E, 0x1C, 0x1A, 0x18
ONLY_BACKGROUND, ONLY_SPRITES, NOTHING, GRAY = 0x0A, 0x14, 0x06, 0x1F
TALL, SPRITE_BANK, BACKGROUND_BANK = 0x20, 0x08, 0x10
SOME_LINES = (0, 1, 8, 47, 90, 94, 97, 101, 107, 113, 160, 201, 232, 239)
"""Among them those on which sprites are crowded."""


@functools.cache
def chips(seed: int) -> bytes:
    """Return random patterns, a third of them empty."""
    random = np.random.default_rng(seed)
    planes = random.integers(0, 256, (512, 16), dtype=np.uint8)
    planes[random.random(512) < 0.3] = 0
    return planes.tobytes()


def pixels_of(patterns: bytes) -> Bytes:
    planes = np.unpackbits(np.frombuffer(patterns, np.uint8).reshape(512, 2, 8, 1), axis=3)
    return np.asarray(planes[:, 0] + 2 * planes[:, 1], np.uint8)


def scene_of(random: np.random.Generator, control: int, mask: int, *, vertical: bool) -> Scene:
    """Return a random scene whose sprites are crowded on purpose."""
    sprites = random.integers(0, 256, (64, 4), dtype=np.uint8)
    crowded = random.random(64) < 0.4
    sprites[crowded, 0] = random.integers(90, 100, int(crowded.sum()))
    sprites[random.random(64) < 0.2, 3] = random.integers(0, 10)
    return Scene(
        tables=random.integers(0, 256, (2, 1024), dtype=np.uint8),
        sprites=sprites,
        palette=random.integers(0, 64, 32, dtype=np.uint8),
        patterns=pixels_of(chips(1)),
        vertical=vertical,
        control=control,
        mask=mask,
        scroll_x=int(random.integers(512)),
        scroll_y=int(random.integers(480)),
    )


def insert(consoles: Consoles, row: int, scene: Scene) -> None:
    """Put a scene into a console that only waits."""
    state, registers = consoles.states[row], consoles.registers[row]
    state[layout.NAMETABLES : layout.NAMETABLES + 2048] = scene.tables.ravel()
    state[layout.OAM : layout.OAM + 256] = scene.sprites.ravel()
    state[layout.PALETTE : layout.PALETTE + 32] = scene.palette
    registers[layout.CONTROL] = scene.control
    registers[layout.MASK] = scene.mask
    right, across = divmod(scene.scroll_x, 256)
    below, down = divmod(scene.scroll_y, 240)
    registers[layout.T] = (
        (down % 8) << 12 | below << 11 | right << 10 | down // 8 << 5 | across // 8
    )
    registers[layout.FINE_X] = across % 8


def shown(scenes: list[Scene]) -> Consoles:
    """Return consoles that have shown one scene each for a frame."""
    mirroring: Mirroring = "vertical" if scenes[0].vertical else "horizontal"
    consoles = Consoles(Cartridge(IDLE, chips(1), mirroring), len(scenes))
    for row, scene in enumerate(scenes):
        insert(consoles, row, scene)
    consoles.step(np.zeros(len(scenes), np.uint8))
    return consoles


def compare(scene: Scene, lines: Iterable[int]) -> None:
    """Compare lines of a scene with the reference."""
    picture = shown([scene]).color_numbers(0)
    for line in lines:
        np.testing.assert_array_equal(picture[line], draw_line(scene, line), f"line {line}")


@pytest.mark.parametrize("vertical", [True, False], ids=["vertical", "horizontal"])
@pytest.mark.parametrize(
    ("control", "mask"),
    [
        (0, SHOW_ALL),
        (TALL | BACKGROUND_BANK, NO_LEFT_BACKGROUND),
        (SPRITE_BANK, NO_LEFT_SPRITES),
        (TALL, NEITHER),
        (BACKGROUND_BANK | SPRITE_BANK, GRAY),
    ],
)
def test_a_random_scene_is_drawn_as_documented(control: int, mask: int, vertical: bool) -> None:  # noqa: FBT001
    scene = scene_of(np.random.default_rng(control + mask), control, mask, vertical=vertical)
    compare(scene, SOME_LINES)


@pytest.mark.slow
def test_all_lines_of_many_scenes_are_drawn_as_documented() -> None:
    random = np.random.default_rng(0)
    for _ in range(40):
        control, mask = int(random.integers(0x40)) & ~0x07, int(random.integers(0x20))
        vertical = bool(random.integers(2))
        compare(scene_of(random, control, mask, vertical=vertical), range(HEIGHT))


@pytest.mark.parametrize("mask", [ONLY_BACKGROUND, ONLY_SPRITES, NOTHING])
def test_what_is_switched_off_is_not_drawn(mask: int) -> None:
    scene = scene_of(np.random.default_rng(mask), 0, mask, vertical=True)
    compare(scene, SOME_LINES)


def meeting_scenes(count: int) -> list[Scene]:
    """Return scenes in which sprite 0 is somewhere, often at an edge."""
    random = np.random.default_rng(5)
    masks = (SHOW_ALL, NO_LEFT_BACKGROUND, NO_LEFT_SPRITES, NEITHER, ONLY_SPRITES, ONLY_BACKGROUND)
    scenes = []
    for _ in range(count):
        control = int(random.choice([0, TALL])) | int(random.choice([0, BACKGROUND_BANK]))
        scene = scene_of(random, control, int(random.choice(masks)), vertical=True)
        scene.sprites[0, 0] = random.choice([0, 30, 100, 231, 238, 239, 250])
        scene.sprites[0, 3] = random.choice([0, 1, 4, 7, 8, 120, 247, 248, 250, 254, 255])
        scenes.append(scene)
    return scenes


def test_sprite_zero_meets_the_background_at_the_documented_dot() -> None:
    scenes = meeting_scenes(300)
    consoles = shown(scenes)
    met = 0
    for row, scene in enumerate(scenes):
        both = scene.mask & 0x18 == 0x18
        expected = first_hit(scene) if both else None
        found = int(consoles.registers[row, layout.SPRITE_ZERO_DOT])
        if expected is None:
            assert found == layout.NEVER, row
        else:
            line, x = expected
            # The pixel is put out in the dot behind the one that counts for it.
            assert found == layout.FIRST_PIXEL + line * layout.LINE_DOTS + x + 1, row
            met += 1
    assert met > 60


def crowded_scenes(count: int) -> list[Scene]:
    """Return scenes with some sprites on a few lines and the others nowhere."""
    random = np.random.default_rng(6)
    scenes = []
    for _ in range(count):
        scene = scene_of(random, int(random.choice([0, TALL])), SHOW_ALL, vertical=True)
        scene.sprites[:, 0] = 255
        some = random.permutation(64)[: random.integers(6, 14)]
        scene.sprites[some, 0] = random.integers(60, 68, len(some))
        scenes.append(scene)
    return scenes


def test_too_many_sprites_on_a_line_are_found_as_the_chip_finds_them() -> None:
    scenes = crowded_scenes(200)
    consoles = shown(scenes)
    in_error = 0
    for row, scene in enumerate(scenes):
        lines = [line for line in range(1, HEIGHT) if overflows(scene, line)]
        dot = int(consoles.registers[row, layout.OVERFLOW_DOT])
        if not lines:
            assert dot == layout.NEVER, row
            continue
        # Sprites of a line are looked for while the line before it is put out.
        begin = layout.FIRST_PIXEL + (lines[0] - 1) * layout.LINE_DOTS
        assert begin + 65 <= dot <= begin + 256, row
        in_error += len(sprites_in(scene, lines[0])) <= 8
    assert in_error > 10
    assert (consoles.registers[:, layout.OVERFLOW_DOT] == layout.NEVER).sum() > 10
