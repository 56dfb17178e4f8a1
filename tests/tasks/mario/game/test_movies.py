"""Movies as text, ours and FCEUX's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.errors import ConfigError
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.game.movies import (
    FM2_WARM_UP,
    POWER,
    RESET,
    Movie,
    load_movie,
    read_fm2,
    script_bytes,
    write_movie,
)
from longhaul.tasks.mario.game.player import Player, check_cartridge, frames_of, outcome
from longhaul.tasks.mario.game.stages import ALL_STAGES, Stage

HEADER = "version 3\nemuVersion 20606\nrerecordCount 7\npalFlag 0\nfourscore 0\nport0 1\nport1 1\n"
FIELDS = "RLDUTSBA"


def fm2(pressed: list[int]) -> str:
    """Return an fm2 written by the letters of its format's description."""
    lines = []
    for byte in pressed:
        bits = f"{byte:08b}"
        pad = "".join(
            letter if bit == "1" else "." for letter, bit in zip(FIELDS, bits, strict=True)
        )
        lines.append(f"|0|{pad}|........||\n")
    return HEADER + "".join(lines)


@given(
    st.lists(st.integers(0, 255), max_size=40),
    st.one_of(st.none(), st.sampled_from(ALL_STAGES)),
)
def test_a_movie_reads_back_from_its_text(
    tmp_path_factory: pytest.TempPathFactory, pressed: list[int], start: Stage | None
) -> None:
    path = tmp_path_factory.mktemp("movies") / "a.movie"
    movie = Movie.of(np.array(pressed, np.uint8), start).ended(np.zeros(2048, np.uint8))
    path.write_text(write_movie(movie), encoding="utf-8")
    again = load_movie(path)
    assert again.pressed.tolist() == pressed
    assert (again.start, again.end_x, again.end_digest) == (start, 0, movie.end_digest)


@given(st.lists(st.integers(0, 255), max_size=40))
def test_the_letters_of_an_fm2_are_the_bits_of_the_pad(pressed: list[int]) -> None:
    assert read_fm2(fm2(pressed)).pressed.tolist() == pressed


def test_spaces_commands_and_the_second_pad_are_read() -> None:
    movie = read_fm2(HEADER + "|1|R..... A|........||\n|2|        |x.......||\n|0||||\n")
    assert movie.pressed.tolist() == [0x81, 0, 0]
    assert movie.second_pad.tolist() == [0, 0x80, 0]
    assert movie.commands.tolist() == [RESET, POWER, 0]
    assert movie.start is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HEADER.replace("palFlag 0", "palFlag 1"), "PAL"),
        (HEADER + "binary 1\n", "binary"),
        (HEADER.replace("fourscore 0", "fourscore 1"), "four pads"),
        (HEADER.replace("port0 1", "port0 2"), "not a pad"),
        (HEADER + "savestate base64:AA\n", "saved state"),
        (HEADER + "|0|R..|........||\n", "eight buttons"),
        (HEADER + "|x|........|........||\n", "not a frame"),
        (HEADER + "|0\n", "not a frame"),
    ],
)
def test_an_fm2_that_cannot_be_replayed_is_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_fm2(text)


def test_a_file_that_is_no_movie_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("hello")
    with pytest.raises(ConfigError, match="not a movie"):
        load_movie(path)
    with pytest.raises(ConfigError, match="cannot read"):
        load_movie(tmp_path / "missing.movie")


def is_replayed(movie: Movie, cartridge: Cartridge) -> bool | None:
    player = Player(cartridge, movie.start)
    for _ in frames_of(movie, player):
        pass
    return outcome(movie, player).same


@pytest.mark.emulator
def test_a_recorded_movie_comes_to_the_same_end(cartridge: Cartridge, tmp_path: Path) -> None:
    movie = Movie.of(script_bytes("RIGHT+B:60,RIGHT+A+B:20,NOOP:9"), Stage(1, 1), cartridge)
    player = Player(cartridge, movie.start)
    for _ in frames_of(movie, player):
        pass
    path = tmp_path / "run.movie"
    path.write_text(write_movie(movie.ended(player.ram)), encoding="utf-8")
    assert is_replayed(load_movie(path), cartridge) is True
    path.write_text(path.read_text().replace("RIGHT+B:60", "RIGHT+B:59,NOOP"))
    assert is_replayed(load_movie(path), cartridge) is False


@pytest.mark.emulator
def test_a_movie_of_another_cartridge_is_refused(cartridge: Cartridge) -> None:
    other = Cartridge(bytes(32768), bytes(8192), "vertical")
    movie = Movie.of(script_bytes("A"), None, other)
    with pytest.raises(ConfigError, match="recorded with cartridge"):
        check_cartridge(movie, cartridge)


@pytest.mark.emulator
def test_the_start_button_counts_from_the_frame_fceux_hears_it_in(cartridge: Cartridge) -> None:
    """Known runs press start in frame 33, the first one in which the title hears it."""

    def is_started(frame: int) -> bool:
        pressed = [0] * 60
        pressed[frame] = 8
        movie = read_fm2(fm2(pressed))
        player = Player(cartridge, None)
        played = sum(1 for _ in frames_of(movie, player))
        assert played == 60 - FM2_WARM_UP
        return bool(player.ram[0x770] == 1)

    assert [is_started(frame) for frame in (31, 32, 33, 34)] == [False, False, True, True]


@pytest.mark.emulator
def test_a_reset_in_a_movie_begins_the_game_anew(cartridge: Cartridge) -> None:
    text = fm2([0] * 33 + [8] + [0] * 40)
    lines = text.splitlines(keepends=True)
    lines.append("|1|........|........||\n")
    lines += ["|0|........|........||\n"] * 60
    player = Player(cartridge, None)
    for _ in frames_of(read_fm2("".join(lines)), player):
        pass
    assert player.ram[0x770] == 0
