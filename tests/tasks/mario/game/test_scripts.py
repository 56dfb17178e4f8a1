"""Scripts of buttons."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.errors import ConfigError
from longhaul.tasks.mario.game.movies import parse_script, script_bytes, script_text


def test_a_script_holds_buttons_for_so_long() -> None:
    assert script_bytes("START:2, b+RIGHT:3 ,a").tolist() == [8, 8, 0x82, 0x82, 0x82, 1]


def test_an_empty_script_presses_nothing() -> None:
    assert script_bytes("").tolist() == []


@given(st.lists(st.integers(0, 255), max_size=60))
def test_what_was_pressed_reads_back_from_its_script(pressed: list[int]) -> None:
    assert script_bytes(script_text(np.array(pressed, np.uint8))).tolist() == pressed


@pytest.mark.parametrize(
    ("text", "told"),
    [("JUMP:3", "no button 'JUMP'"), ("RIGHT:0", "1 or more"), ("A:x", "1 or more")],
)
def test_what_is_no_script_is_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        parse_script(text)
