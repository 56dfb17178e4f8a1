"""What is said of observations that look like images and are not read as such."""

from __future__ import annotations

import pytest

from longhaul.core.spaces import Part
from longhaul.nets.config import PolicyConfig
from longhaul.nets.encoder import image_warnings


@pytest.mark.parametrize(
    ("part", "remedy"),
    [
        (Part((64, 64), "uint8"), "return it as (height, width, channels) = (64, 64, 1)"),
        (Part((3, 64, 64)), "is float32, so it is read by an MLP; return it as uint8"),
        (Part((64, 64, 3)), "is float32, so it is read by an MLP; return it as uint8"),
    ],
)
def test_a_picture_that_an_mlp_reads_is_told_with_the_remedy(part: Part, remedy: str) -> None:
    (told,) = image_warnings({"obs": part, "more": Part((7,))}, PolicyConfig())
    assert told.startswith(f"observation 'obs' {part.shape} looks like an image but ")
    assert told.endswith(remedy) or remedy in told


@pytest.mark.parametrize(
    "part",
    [
        Part((3, 64, 64), "uint8"),
        Part((3, 20, 20), "uint8"),
        Part((64,), "uint8"),
        Part((10, 8), "uint8"),
        Part((64, 64)),
        Part((16, 32, 32)),
        Part((7, 7, 3), "uint8"),
    ],
    ids=str,
)
def test_nothing_is_said_of_images_that_are_read_and_of_other_arrays(part: Part) -> None:
    assert image_warnings({"obs": part}, PolicyConfig()) == ()


def test_nothing_is_said_if_an_mlp_was_asked_for() -> None:
    assert image_warnings({"obs": Part((64, 64), "uint8")}, PolicyConfig(trunk="mlp")) == ()
