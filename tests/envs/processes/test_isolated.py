"""Functions called in a process of their own."""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from longhaul.core.errors import ConfigError, EnvError
from longhaul.envs.processes.isolated import call_isolated


def double(number: int) -> int:
    return 2 * number


def complain() -> None:
    raise ConfigError("no such thing")


def stumble() -> None:
    raise KeyError("ball")


def die(folder: Path, times: int) -> str:
    """Die as often as told, then return."""
    for turn in range(times):
        try:
            (folder / str(turn)).touch(exist_ok=False)
        except FileExistsError:
            continue
        os.kill(os.getpid(), signal.SIGSEGV)
    return "alive"


def test_what_it_returns_comes_back() -> None:
    assert call_isolated(partial(double, 21), seconds=60, attempts=1) == 42


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        (complain, ConfigError, "^no such thing\n"),
        (stumble, EnvError, r"^KeyError: 'ball' at test_isolated\.py:\d+ in stumble\n"),
    ],
)
def test_what_it_raises_is_raised_here(
    function: partial[None], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        call_isolated(function, seconds=60, attempts=3)


def chatter() -> int:
    for stream in (sys.stdout, sys.stderr):
        stream.write("x" * 1_000_000)
        stream.flush()
    return 3


def test_one_that_prints_a_lot_is_neither_held_up_nor_heard(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert call_isolated(chatter, seconds=60, attempts=1) == 3
    assert capfd.readouterr() == ("", "")


def test_a_death_is_made_good_by_another_attempt(tmp_path: Path) -> None:
    assert call_isolated(partial(die, tmp_path, 1), seconds=60, attempts=2) == "alive"
    with pytest.raises(EnvError, match="failed 2 times in an isolated process: it died of signal"):
        call_isolated(partial(die, tmp_path, 4), seconds=60, attempts=2)


def test_a_hang_is_an_error_that_is_not_waited_for_again() -> None:
    began = time.monotonic()
    with pytest.raises(EnvError, match=r"no answer within 0\.5 s"):
        call_isolated(partial(time.sleep, 60), seconds=0.5, attempts=9)
    assert time.monotonic() - began < 20
