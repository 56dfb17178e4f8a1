"""Interpreters of peers: what they lack is known before anything is measured."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.processes import missing


def test_an_interpreter_that_has_everything_lacks_nothing() -> None:
    assert missing(Path(sys.executable), ["torch", "json"]) == ""


def test_modules_that_are_not_there_are_named() -> None:
    fault = missing(Path(sys.executable), ["json", "no_such_peer", "nor_this_one"])
    assert fault == f"{sys.executable} has no no_such_peer, nor_this_one"


def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert missing(tmp_path / "python", ["json"]) == f"there is no {tmp_path / 'python'}"


def test_a_file_that_is_no_interpreter_is_told(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/false\n")
    fake.chmod(0o755)
    assert missing(fake, ["json"]) == f"{fake} cannot be run"
