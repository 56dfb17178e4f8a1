"""Pictures in a terminal."""

from __future__ import annotations

import io

import numpy as np
from rich.console import Console

from longhaul.report.film import fit, half_blocks


def test_a_picture_is_averaged_down_to_the_terminal() -> None:
    picture = np.zeros((100, 200, 3), np.uint8)
    picture[:, 100:] = 200
    small = fit(picture, columns=40, lines=20)
    assert small.shape == (20, 40, 3)
    assert small[:, :20].max() == 0
    assert small[:, 20:].min() == 200


def test_a_picture_that_fits_stays_as_it_is() -> None:
    picture = np.random.default_rng(0).integers(0, 255, (8, 6, 3)).astype(np.uint8)
    np.testing.assert_array_equal(fit(picture, columns=80, lines=24), picture)


def test_two_pixels_share_a_character() -> None:
    picture = np.array([[[255, 0, 0]], [[0, 0, 255]]], np.uint8)
    stream = io.StringIO()
    Console(file=stream, force_terminal=True, color_system="truecolor").print(half_blocks(picture))
    assert "▀" in stream.getvalue()
    assert "38;2;255;0;0;48;2;0;0;255" in stream.getvalue()
