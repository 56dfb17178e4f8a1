from __future__ import annotations

import numpy as np

from longhaul.tasks.mario.console.standin_rom import (
    BACKGROUND_BANK,
    GLYPH_TILES,
    GROUND,
    GROUND_TILE,
    RUNNER,
    RUNNER_TILE,
    patterns,
)

COLORS = " .o#"


def drawn(tile: int) -> list[str]:
    """Return a pattern as characters, read as the console does."""
    low, high = np.frombuffer(patterns(), np.uint8).reshape(512, 2, 8)[tile]
    return [
        "".join(COLORS[(a >> bit & 1) + 2 * (b >> bit & 1)] for bit in range(7, -1, -1))
        for a, b in zip(low.tolist(), high.tolist(), strict=True)
    ]


def test_patterns_fill_their_chip() -> None:
    assert len(patterns()) == 8192


def test_a_pattern_is_what_was_drawn() -> None:
    assert drawn(BACKGROUND_BANK + GROUND_TILE) == list(GROUND)


def test_a_figure_of_sixteen_pixels_is_four_patterns() -> None:
    upper = [a + b for a, b in zip(drawn(RUNNER_TILE), drawn(RUNNER_TILE + 1), strict=True)]
    lower = [a + b for a, b in zip(drawn(RUNNER_TILE + 2), drawn(RUNNER_TILE + 3), strict=True)]
    assert upper + lower == list(RUNNER)


def test_no_two_characters_look_alike() -> None:
    seen = {tuple(drawn(BACKGROUND_BANK + GLYPH_TILES.index(c))) for c in "0123456789PREST"}
    assert len(seen) == 15
