"""A whole game that was found by search, played by a console that nobody here wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from longhaul.tasks.mario.commands.movie import export_demo, is_with_the_princess
from longhaul.tasks.mario.game.movies import STACK, load_movie
from longhaul.tasks.mario.game.player import Player, frames_of
from tests.tasks.mario.console.oracles.found import FCEUMM, game_or_skip
from tests.tasks.mario.console.oracles.libretro import LibretroConsole

DEMO = Path(__file__).parents[1] / "demos" / "whole-game.demo"


@pytest.mark.slow
def test_the_whole_game_is_found_from_switching_on_to_the_princess(tmp_path: Path) -> None:
    game_or_skip()
    exported = export_demo(DEMO, tmp_path / "game.fm2")
    assert exported.princess
    assert exported.stage == "8-4"


@pytest.mark.emulator
@pytest.mark.oracle
@pytest.mark.slow
def test_its_fm2_reaches_the_princess_on_fceumm_with_the_same_memory(tmp_path: Path) -> None:
    cartridge = game_or_skip()
    other = LibretroConsole(FCEUMM.path_or_skip(), cartridge.image())
    movie = load_movie(export_demo(DEMO, tmp_path / "game.fm2").path)
    for byte in movie.pressed.tolist():
        other.step(byte)
    player = Player(cartridge, None)
    for _ in frames_of(movie, player):
        pass
    assert is_with_the_princess(other.ram)
    ours, theirs = player.ram[:2048].copy(), other.ram.copy()
    ours[STACK] = theirs[STACK] = 0
    assert np.array_equal(ours, theirs)
