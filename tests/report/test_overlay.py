"""The panel beside the picture."""

from __future__ import annotations

import numpy as np

from longhaul.report.overlay import PAPER, WIDTH, Bar, Caption, Heading, Overlay, enlarge

HEADING = Heading("fish", ("after 10 steps", "seed 3"), length=100)
FULL = Caption(
    facts=(("step", "3"), ("return", "1.25")),
    bars=(("action", (Bar("left", 0.25, "25 %"), Bar("right", 0.75, "75 %"))),),
    curves=(("value", (0.0, 1.0, 0.5)),),
    notes=(("gate/stage", "2"),),
)


def test_the_panel_stands_beside_the_unchanged_picture() -> None:
    picture = np.random.default_rng(0).integers(0, 255, (500, 600, 3)).astype(np.uint8)
    frame = Overlay(HEADING).frame(picture, FULL)
    assert frame.shape == (500, 600 + WIDTH, 3)
    np.testing.assert_array_equal(frame[:, :600], picture)
    assert (frame[:, 600:] != PAPER).any(axis=-1).mean() > 0.02


def test_a_longer_bar_has_more_color() -> None:
    def painted(share: float) -> int:
        caption = Caption(bars=(("action", (Bar("left", share, ""),)),))
        frame = Overlay(HEADING).frame(np.zeros((500, 10, 3), np.uint8), caption)
        return int((frame == (86, 180, 233)).all(axis=-1).sum())

    assert painted(0.0) == 0
    assert painted(0.9) > 1.5 * painted(0.5) > 0
    assert painted(7.0) == painted(1.0)


def test_what_does_not_fit_is_left_out_and_overlaps_nothing() -> None:
    many = tuple(Bar(f"choice {number} with a very long name", 0.5, "50 %") for number in range(8))
    caption = Caption(
        bars=tuple((f"group {number}", many) for number in range(9)), curves=FULL.curves
    )
    frame = Overlay(HEADING).frame(np.zeros((500, 10, 3), np.uint8), caption)
    assert (frame[-4:, 10:] == PAPER).all()


def test_small_pictures_are_enlarged_by_whole_numbers() -> None:
    picture = np.arange(4 * 4 * 3, dtype=np.uint8).reshape(4, 4, 3)
    large = enlarge(picture)
    assert large.shape == (480, 480, 3)
    np.testing.assert_array_equal(large[::120, ::120], picture)


def test_one_overlay_makes_the_same_frame_twice() -> None:
    overlay = Overlay(HEADING)
    picture = np.full((480, 64, 3), 9, np.uint8)
    first = overlay.frame(picture, FULL)
    overlay.frame(np.full_like(picture, 99), Caption())
    np.testing.assert_array_equal(first, overlay.frame(picture, FULL))
