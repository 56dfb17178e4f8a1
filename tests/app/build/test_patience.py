"""Whoever waits is told what for; whoever does not is left alone."""

from __future__ import annotations

import threading

from longhaul.app.build.text import notify_if_slow


def test_what_takes_long_is_told_while_it_lasts() -> None:
    told, heard = [], threading.Event()

    def notify(text: str) -> None:
        told.append(text)
        heard.set()

    with notify_if_slow(notify, "compiling", seconds=0.0):
        assert heard.wait(30)
    assert told == ["compiling"]


def test_what_is_quick_is_done_in_silence() -> None:
    told: list[str] = []
    with notify_if_slow(told.append, "compiling", seconds=1000.0):
        pass
    assert told == []
