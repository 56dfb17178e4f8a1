"""Functions called in a separate process."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from longhaul.core.errors import ConfigError, EnvError
from longhaul.envs.processes.isolated import Enter, call_isolated, call_with_retries


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
    assert call_with_retries(partial(double, 21), seconds=60, attempts=1) == 42


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
        call_with_retries(function, seconds=60, attempts=3)


def chatter() -> int:
    for stream in (sys.stdout, sys.stderr):
        stream.write("x" * 1_000_000)
        stream.flush()
    return 3


def test_one_that_prints_a_lot_is_neither_held_up_nor_heard(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert call_with_retries(chatter, seconds=60, attempts=1) == 3
    assert capfd.readouterr() == ("", "")


def test_a_death_is_made_good_by_another_attempt(tmp_path: Path) -> None:
    assert call_with_retries(partial(die, tmp_path, 1), seconds=60, attempts=2) == "alive"
    with pytest.raises(EnvError, match=r"crashed 2 times in an isolated process: .* SIGSEGV"):
        call_with_retries(partial(die, tmp_path, 4), seconds=60, attempts=2)


def test_a_hang_is_an_error_that_is_not_waited_for_again() -> None:
    began = time.monotonic()
    with pytest.raises(EnvError, match=r"no answer within 0\.5 s"):
        call_with_retries(partial(time.sleep, 60), seconds=0.5, attempts=9)
    assert time.monotonic() - began < 20


def answer(question: str, enter: Enter) -> str:
    enter("think")
    os.write(2, b"hm")
    return question[::-1]


def refuse(question: str, enter: Enter) -> str:
    enter("think")
    raise ValueError(f"no answer to {question}")


REFUSAL = f"test_isolated.py:{refuse.__code__.co_firstlineno + 2}"


def crash(question: str, enter: Enter) -> str:
    enter("think")
    os.kill(os.getpid(), signal.SIGSEGV)
    return question


def brood(question: str, enter: Enter) -> str:
    enter("think")
    threading.Event().wait()
    return question


@pytest.mark.thorough
def test_what_a_function_returns_comes_back_with_the_time_of_each_stage() -> None:
    aftermath = call_isolated(partial(answer, "abc"), seconds=60.0)
    assert (aftermath.fate, aftermath.returned, aftermath.error) == ("returned", "cba", "")
    assert list(aftermath.seconds) == ["start", "think"]
    assert aftermath.output == "hm"


@pytest.mark.parametrize(
    ("function", "fate", "error", "output"),
    [
        (refuse, "raised", f"ValueError: no answer to abc at {REFUSAL} in refuse", "in refuse"),
        (crash, "died", "its process was killed by SIGSEGV", "in crash"),
    ],
)
@pytest.mark.thorough
def test_a_failure_is_told_with_its_stage_and_stack(
    function: object, fate: str, error: str, output: str
) -> None:
    assert callable(function)
    aftermath = call_isolated(partial(function, "abc"), seconds=60.0)
    assert (aftermath.fate, aftermath.error, aftermath.stage) == (fate, error, "think")
    assert aftermath.returned is None
    assert output in aftermath.output


@pytest.mark.thorough
def test_a_function_that_does_not_end_is_ended() -> None:
    aftermath = call_isolated(partial(brood, "abc"), seconds=4.0)
    assert (aftermath.fate, aftermath.stage) == ("stuck", "think")
    assert aftermath.error == "no end after 4 s"
    assert "in brood" in aftermath.output
