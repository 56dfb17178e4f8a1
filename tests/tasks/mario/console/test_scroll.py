"""The address in video memory as a place on the screen, in coordinates."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from longhaul.tasks.mario.console import picture as scroll
from longhaul.tasks.mario.console.layout import HORIZONTAL, NAMETABLES, VERTICAL

ADDRESSES = st.integers(0, 0x7FFF)


def plain(kernel: Any) -> Any:
    """Return the Python function that a kernel is compiled from."""
    return cast(Any, kernel).py_func


def place(v: int) -> tuple[int, int]:
    """Return the tile column and the line that an address means, over all four screens."""
    column = (v & 31) + 32 * (v >> 10 & 1)
    line = (v >> 12 & 7) + 8 * (v >> 5 & 31) + 240 * (v >> 11 & 1)
    return column, line


@given(ADDRESSES.filter(lambda v: v >> 5 & 31 < 30))
def test_below_is_the_next_line_of_two_screens_one_above_the_other(v: int) -> None:
    column, line = place(v)
    assert place(plain(scroll.below)(v)) == (column, (line + 1) % 480)


@given(ADDRESSES)
def test_to_the_right_is_the_next_tile_of_two_screens_side_by_side(v: int) -> None:
    column, line = place(v)
    assert place(plain(scroll.to_the_right)(v)) == ((column + 1) % 64, line)


@given(ADDRESSES, st.sampled_from([30, 31]))
def test_below_the_picture_lines_wrap_without_changing_the_screen(v: int, row: int) -> None:
    v = v & ~0x03E0 | row << 5
    below = plain(scroll.below)(v)
    assert below & 0x0C00 == v & 0x0C00
    is_last_line = v >> 12 == 7
    assert (below >> 5 & 31) == (row + is_last_line) % 32


@given(ADDRESSES)
def test_screens_are_mirrored_across_or_down(v: int) -> None:
    across, down = (plain(scroll.table_base)(v, kind) for kind in (VERTICAL, HORIZONTAL))
    assert across == NAMETABLES + 1024 * (v >> 10 & 1)
    assert down == NAMETABLES + 1024 * (v >> 11 & 1)
