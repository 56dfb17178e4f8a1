from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from longhaul.core.errors import ConfigError
from longhaul.tasks.mario.console.consoles import Bytes, Consoles
from longhaul.tasks.mario.console.picture import Picture, colors, grays
from tests.tasks.mario.console.test_consoles import in_play


def shares(pieces: int, wholes: int) -> NDArray[np.float64]:
    """Return how much of each of `pieces` pixels is in each of `wholes` larger ones."""
    edges = np.arange(wholes + 1) * (pieces / wholes)
    begin = np.maximum(edges[:-1, None], np.arange(pieces))
    end = np.minimum(edges[1:, None], np.arange(pieces) + 1)
    overlap: NDArray[np.float64] = np.maximum(end - begin, 0) * (wholes / pieces)
    return overlap


def area_average(image: NDArray[np.float64], height: int, width: int) -> NDArray[np.float64]:
    """Return an image made smaller, each pixel the mean of the area it covers."""
    small: NDArray[np.float64] = (
        shares(image.shape[0], height) @ image @ shares(image.shape[1], width).T
    )
    return small


def last_frames(picture: Picture) -> tuple[Consoles, Bytes, Bytes]:
    """Return consoles in play, and the last two frames of the first one, in numbers of colors."""
    consoles, other = in_play(1, picture), in_play(1, picture)
    buttons = np.array([0x81], np.uint8)
    consoles.step(buttons, frames=4)
    other.step(buttons, frames=3)
    return consoles, other.color_numbers(0), consoles.color_numbers(0)


def test_a_picture_is_the_area_average_of_the_last_frame() -> None:
    consoles, _, last = last_frames(Picture())
    wanted = area_average(grays()[last].astype(float), 84, 84)
    assert np.abs(consoles.pictures[0, -1] - wanted).max() <= 0.51


@pytest.mark.parametrize(("height", "width"), [(42, 42), (60, 80), (96, 100), (208, 256)])
def test_other_sizes_and_crops_are_area_averages_too(height: int, width: int) -> None:
    consoles, _, last = last_frames(Picture(height, width, first_line=32))
    wanted = area_average(grays()[last[32:]].astype(float), height, width)
    assert np.abs(consoles.pictures[0, -1] - wanted).max() <= 0.51


def test_two_frames_give_the_brighter_of_each_pixel() -> None:
    consoles, before, last = last_frames(Picture(two_frames=True))
    wanted = area_average(np.maximum(grays()[before], grays()[last]).astype(float), 84, 84)
    assert (before != last).any()
    assert np.abs(consoles.pictures[0, -1] - wanted).max() <= 0.51


def test_color_pictures_have_three_planes() -> None:
    consoles, _, last = last_frames(Picture(color=True, stack=2))
    assert consoles.pictures.shape == (1, 6, 84, 84)
    for plane in range(3):
        wanted = area_average(colors()[last][..., plane].astype(float), 84, 84)
        assert np.abs(consoles.pictures[0, 3 + plane] - wanted).max() <= 0.51


def test_the_latest_pictures_are_kept_oldest_first() -> None:
    consoles = in_play(1, Picture(stack=3))
    seen = []
    for _ in range(4):
        consoles.step(np.array([0x80], np.uint8), frames=4)
        seen.append(consoles.pictures[0, -1].copy())
    np.testing.assert_array_equal(consoles.pictures[0], seen[1:])


def test_the_screen_is_the_last_frame_in_color() -> None:
    consoles, _, last = last_frames(Picture())
    screen = consoles.screen(0)
    assert screen.shape == (240, 256, 3)
    np.testing.assert_array_equal(screen, colors()[last])


def test_the_colors_are_those_of_the_console() -> None:
    table = colors().astype(int)
    assert tuple(table[0x0F]) == (0, 0, 0)
    assert (table[0x30] >= 250).all()
    red, green, blue = table[0x16], table[0x1A], table[0x12]
    assert red.argmax() == 0
    assert green.argmax() == 1
    assert blue.argmax() == 2
    brightness = grays().astype(int)
    assert brightness[0x01] < brightness[0x11] < brightness[0x21] < brightness[0x31]


@pytest.mark.parametrize(
    "wrong",
    [
        {"first_line": 100, "last_line": 90},
        {"last_line": 241},
        {"height": 0},
        {"width": 257},
        {"height": 84, "first_line": 200},
        {"stack": 0},
    ],
)
def test_a_picture_that_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        Picture(**wrong)  # type: ignore[arg-type]  # numbers only
