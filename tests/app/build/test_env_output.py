"""Where output goes while environments run, and that it comes back."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from longhaul.app.build import env_output as module
from longhaul.app.build.env_output import CUT, EnvOutput, env_output, own_streams


def test_a_long_log_keeps_its_beginning_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_LOG", 1000)
    folder = tmp_path / "env-output"
    told: list[str] = []
    with EnvOutput(folder) as output:
        output.notify = told.append
        sys.stdout.write("first\n" + "x" * 2000 + "\n")
        output._look()
        sys.stdout.write("last\n")
    kept = (folder / "trainer.log").read_bytes()
    assert kept.startswith(b"first\n")
    assert kept.endswith(CUT + b"last\n")
    assert len(kept) < 1000
    assert told == [f"the environment or a library prints; see {folder / 'trainer.log'}"]


def test_own_words_and_others_part_inside_and_meet_again_outside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with env_output(tmp_path / "env-output"):
        kept_by_a_handler = sys.stderr
        own_streams().out.write("ours\n")
        sys.stdout.write("theirs\n")
        with env_output(tmp_path / "another"):
            own_streams().out.write("ours inside\n")
    kept_by_a_handler.write("afterwards\n")
    seen = capsys.readouterr()
    assert seen.out == "ours\nours inside\n"
    assert seen.err == "afterwards\n"
    assert (tmp_path / "env-output" / "trainer.log").read_text() == "theirs\n"
    assert not (tmp_path / "another").exists()


def test_a_kept_stream_ends_in_silence_when_the_original_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", original)
    with env_output(tmp_path / "env-output"):
        kept = sys.stdout
    original.close()
    kept.flush()  # as Python does when the object ends; Python 3.13 reports what that raises


@pytest.mark.parametrize("link", ["env-output", "env-output/trainer.log"])
def test_a_link_is_not_followed(tmp_path: Path, link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    path = tmp_path / link
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(elsewhere if link == "env-output" else elsewhere / "file")
    with EnvOutput(tmp_path / "env-output"):
        sys.stdout.write("theirs\n")
    assert not any(elsewhere.iterdir())


REAL = """
import os, sys
from longhaul.app.build.env_output import env_output, own_streams
from pathlib import Path
print("before")
with env_output(Path(sys.argv[1])):
    os.write(1, b"native\\n")
    print("theirs")
    own_streams().out.write("ours\\n")
    os.system("echo child")
print("after")
"""


def test_real_descriptors_are_put_aside_and_back(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", REAL, str(tmp_path / "logs")], capture_output=True, text=True
    )
    assert ended.stdout == "before\nours\nafter\n"
    assert ended.stderr == ""
    assert (tmp_path / "logs" / "trainer.log").read_text() == "native\ntheirs\nchild\n"


@pytest.mark.parametrize("closing", ["1>&-", "2>&-", "1>&- 2>&-"])
def test_closed_streams_do_no_harm(tmp_path: Path, closing: str) -> None:
    program = (
        f"from longhaul.app.build.env_output import EnvOutput\nfrom pathlib import Path\n"
        f"with EnvOutput(Path({str(tmp_path / 'logs')!r})): pass\n"
    )
    shell = f'"{sys.executable}" -c "$PROGRAM" {closing}'
    assert (
        subprocess.run(["sh", "-c", shell], env={**os.environ, "PROGRAM": program}).returncode == 0
    )
