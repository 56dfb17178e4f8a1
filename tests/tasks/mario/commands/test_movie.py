from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from longhaul.core.errors import ConfigError
from longhaul.tasks.mario.commands.movie import export_demo
from longhaul.tasks.mario.commands.play import PlayRequest
from longhaul.tasks.mario.commands.play import play as play_through
from longhaul.tasks.mario.game.movies import FM2_WARM_UP, read_fm2, write_fm2
from tests.tasks.mario.cartridges import game_or_skip

DEMOS = Path(__file__).parents[1] / "demos"


def test_a_stage_without_scenes_becomes_a_movie_that_clears_it(tmp_path: Path) -> None:
    game_or_skip()
    exported = export_demo(DEMOS / "4-4.demo", tmp_path / "4-4.movie")
    assert exported.cleared
    assert "to the end of its stage" in exported.as_text()
    played = play_through(PlayRequest("1-1", "", exported.path, None, None, ""))
    assert played.outcome.same
    assert played.outcome.facts.flag_get


def test_a_stage_with_scenes_that_are_cut_is_refused(tmp_path: Path) -> None:
    game_or_skip()
    with pytest.raises(ConfigError, match="has scenes that the search cuts short"):
        export_demo(DEMOS / "1-2.demo", tmp_path / "1-2.movie")


def test_a_stage_is_no_fm2_for_that_begins_with_switching_on(tmp_path: Path) -> None:
    game_or_skip()
    with pytest.raises(ConfigError, match="only the whole game can be one"):
        export_demo(DEMOS / "4-4.demo", tmp_path / "4-4.fm2")


def test_what_is_written_as_fm2_is_read_again() -> None:
    pressed = np.array([0, 8, 0x80, 0x41, 255, 0], np.uint8)
    movie = read_fm2(write_fm2(pressed, "game"))
    assert movie.start is None
    assert movie.pressed[FM2_WARM_UP:].tolist() == pressed.tolist()
    assert not movie.pressed[:FM2_WARM_UP].any()
