from __future__ import annotations

import os
import signal
import threading

import pytest

from longhaul.app.diagnose.isolation import Enter, call_isolated

pytestmark = pytest.mark.thorough


def answer(question: str, enter: Enter) -> str:
    enter("think")
    os.write(2, b"hm")
    return question[::-1]


def refuse(question: str, enter: Enter) -> str:
    enter("think")
    raise ValueError(f"no answer to {question}")


REFUSAL = f"test_isolation.py:{refuse.__code__.co_firstlineno + 2}"


def die(question: str, enter: Enter) -> str:
    enter("think")
    os.kill(os.getpid(), signal.SIGSEGV)
    return question


def brood(question: str, enter: Enter) -> str:
    enter("think")
    threading.Event().wait()
    return question


def test_what_a_function_returns_comes_back_with_the_time_of_each_stage() -> None:
    aftermath = call_isolated(answer, "abc", deadline_seconds=60.0)
    assert (aftermath.fate, aftermath.returned, aftermath.error) == ("returned", "cba", "")
    assert list(aftermath.seconds) == ["start", "think"]
    assert aftermath.output == "hm"


@pytest.mark.parametrize(
    ("function", "fate", "error", "output"),
    [
        (refuse, "raised", f"ValueError: no answer to abc at {REFUSAL} in refuse", "in refuse"),
        (die, "died", "its process was killed by SIGSEGV", "in die"),
    ],
)
def test_a_failure_is_told_with_its_stage_and_stack(
    function: object, fate: str, error: str, output: str
) -> None:
    assert callable(function)
    aftermath = call_isolated(function, "abc", deadline_seconds=60.0)
    assert (aftermath.fate, aftermath.error, aftermath.stage) == (fate, error, "think")
    assert aftermath.returned is None
    assert output in aftermath.output


def test_a_function_that_does_not_end_is_ended() -> None:
    aftermath = call_isolated(brood, "abc", deadline_seconds=4.0)
    assert (aftermath.fate, aftermath.stage) == ("stuck", "think")
    assert aftermath.error == "no end after 4 s"
    assert "in brood" in aftermath.output
