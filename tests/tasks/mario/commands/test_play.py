"""Playing by scripts, movies and keys."""

from __future__ import annotations

import json
import os
import pty
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from longhaul.cli.main import app
from longhaul.core.errors import ConfigError
from longhaul.report.film import count_frames
from longhaul.tasks.mario.commands.play import HELD_FRAMES, Pad, PlayRequest, play
from tests.tasks.mario.cartridges import game_or_skip


@pytest.mark.emulator
def test_a_script_is_played_filmed_and_recorded(tmp_path: Path) -> None:
    game_or_skip()
    request = PlayRequest(script="RIGHT+B:12", record=tmp_path / "a.movie", film=tmp_path / "a.mp4")
    played = play(request)
    assert played.outcome.frames == 12
    assert played.film is not None
    assert (played.film.width, played.film.height) == (512, 480)
    assert count_frames(tmp_path / "a.mp4") == 12
    again = play(PlayRequest(movie=tmp_path / "a.movie"))
    assert again.outcome.same is True
    assert "the end it was recorded with" in again.as_text()
    assert json.loads(again.as_json())["x_pos"] == played.outcome.facts.x_pos


@pytest.mark.emulator
def test_the_command_plays_without_a_terminal() -> None:
    game_or_skip()
    done = CliRunner().invoke(app, ["mario", "play", "--stage", "3-1", "--script", "A:4", "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["world"] == 3


def test_a_script_and_a_movie_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="not both"):
        PlayRequest(script="A", movie=Path("x"))


def test_keys_are_held_for_a_while_and_opposites_let_go() -> None:
    pad = Pad()
    pad.hear("\x1b[Cx")
    assert pad.next_byte() == 0x81
    pad.hear("\x1b[D")
    assert pad.next_byte() == 0x41
    for _ in range(HELD_FRAMES):
        pad.next_byte()
    assert pad.next_byte() == 0
    pad.hear("q")
    assert pad.is_over


@given(st.text(max_size=30))
def test_no_typing_breaks_the_pad(typed: str) -> None:
    pad = Pad()
    pad.hear(typed)
    assert 0 <= pad.next_byte() <= 255


@pytest.mark.slow
@pytest.mark.emulator
def test_keys_in_a_terminal_play_and_are_recorded(tmp_path: Path) -> None:
    game_or_skip()
    path = tmp_path / "hand.movie"
    command = [sys.executable, "-m", "longhaul", "mario", "play", "--record", str(path)]
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS="60", LINES="20")
        os.execv(sys.executable, command)
    shown, pictures = b"", 0
    while chunk := _read(terminal):
        shown += chunk
        # Whenever something is drawn, the game runs.
        if "▀".encode() in chunk:
            pictures += 1
            os.write(terminal, b"\x1b[Cz" if pictures < 20 else b"q")
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert "RIGHT+B" in path.read_text()
    assert play(PlayRequest(movie=path)).outcome.same is True


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux tells the end of a pseudo-terminal so
        return b""
