"""Button combinations: names, orders and bit patterns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.errors import ConfigError
from longhaul.tasks.mario.actions import BUTTONS, action_set, buttons, spelled

R, L, D, U, START, B, A = 0x80, 0x40, 0x20, 0x10, 0x08, 0x02, 0x01


@pytest.mark.parametrize(
    ("name", "patterns"),
    [
        ("right", (0, R, R | A, R | B, R | A | B)),
        ("simple", (0, R, R | A, R | B, R | A | B, A, L)),
        (
            "complex",
            (0, R, R | A, R | B, R | A | B, A, L, L | A, L | B, L | A | B, D, U),
        ),
        (
            "extended",
            (0, START, R, R | B, R | A, R | A | B, START | R, START | R | B),
        ),
    ],
)
def test_the_sets_press_what_the_specification_lists(name: str, patterns: tuple[int, ...]) -> None:
    chosen = action_set(name)
    assert chosen.bytes == patterns
    assert len(chosen) == len(patterns)


def test_choices_are_called_as_they_are_written() -> None:
    assert action_set("right").names == ("NOOP", "RIGHT", "RIGHT+A", "RIGHT+B", "RIGHT+A+B")


@given(st.integers(0, 255))
def test_any_byte_reads_back_from_its_words(byte: int) -> None:
    assert buttons(spelled(byte)) == byte


@given(st.permutations(BUTTONS), st.integers(1, 8))
def test_the_order_and_case_of_buttons_do_not_matter(order: list[str], count: int) -> None:
    assert buttons("+".join(order[:count]).lower()) == buttons("+".join(sorted(order[:count])))


def test_own_combinations_replace_the_sets() -> None:
    own = action_set("simple", ("noop", "b+right", "DOWN"))
    assert own.bytes == (0, R | B, D)
    assert own.index(D) == 2
    assert own.index(A) == -1


@pytest.mark.parametrize(
    ("name", "own", "told"),
    [
        ("simpel", (), "did you mean 'simple'"),
        ("simple", ("RIHGT",), "did you mean 'RIGHT'"),
        ("simple", ("A+B", "B+A"), "twice"),
    ],
)
def test_what_is_no_set_is_refused(name: str, own: tuple[str, ...], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        action_set(name, own)
