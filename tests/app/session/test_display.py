from __future__ import annotations

import io
import json
import sys

import pytest

from longhaul.app.session.display import (
    Display,
    JsonLines,
    PlainLines,
    Throttle,
    Unfailing,
    choose_display,
)
from longhaul.app.session.live import LivePanel
from longhaul.core.control import Progress, RunLength

METRICS = {"rollout/ep_rew_mean": 20.25, "time/session_fps": 12_345.6, "train/approx_kl": 0.01}


def show(display: Display, *, iterations: int) -> None:
    display.open("gym:CartPole-v1  runs/x", length=RunLength(400))
    for number in range(1, iterations + 1):
        display.stage("collect")
        display.write(Progress(number, number * 100, number), METRICS)
    display.notice("continuing from step-000000000100")
    display.close()


def test_plain_lines_show_the_first_and_the_last_iteration() -> None:
    stream = io.StringIO()
    show(PlainLines(stream, seconds=1e9), iterations=4)
    title, first, notice, last = stream.getvalue().splitlines()
    assert title == "gym:CartPole-v1  runs/x"
    assert first.startswith("100 steps (25 %)  return 20.2  steps/s 12,346  kl 0.0100")
    assert notice == "continuing from step-000000000100"
    assert last.startswith("400 steps (100 %)")


def test_plain_lines_show_every_iteration_when_there_is_time() -> None:
    stream = io.StringIO()
    show(PlainLines(stream, seconds=0.0), iterations=4)
    assert len(stream.getvalue().splitlines()) == 2 + 4


def test_a_run_past_its_end_is_never_more_than_whole() -> None:
    stream = io.StringIO()
    lines = PlainLines(stream)
    lines.open("x", length=RunLength(64))
    lines.write(Progress(1, 96), {})
    assert stream.getvalue().endswith("96 steps (100 %)\n")


def test_json_lines_hold_every_metric() -> None:
    stream = io.StringIO()
    show(JsonLines(stream, seconds=0.0), iterations=2)
    rows = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [row["event"] for row in rows] == ["begin", "iteration", "iteration", "notice"]
    assert rows[2] == {
        "event": "iteration",
        "iteration": 2,
        "env_steps": 200,
        "episodes": 2,
        "metrics": METRICS,
    }


def test_json_lines_show_the_last_iteration_however_fast_the_run_was() -> None:
    stream = io.StringIO()
    show(JsonLines(stream, seconds=1e9), iterations=5)
    rows = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [row["iteration"] for row in rows if row["event"] == "iteration"] == [1, 5]


def test_json_lines_refuse_what_is_no_json() -> None:
    lines = JsonLines(io.StringIO(), seconds=0.0)
    with pytest.raises(ValueError, match="JSON"):
        lines.write(Progress(1, 1), {"train/loss": float("nan")})


def test_a_throttle_says_yes_once_in_its_time() -> None:
    times = iter([0.0, 0.5, 0.9, 1.0, 1.5, 2.5])
    throttle = Throttle(1.0, clock=lambda: next(times))
    assert [throttle.ready() for _ in range(6)] == [True, False, False, True, False, True]


def test_the_display_fits_where_the_output_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def fitting(*, as_json: bool) -> Display:
        display = choose_display(as_json=as_json, quiet=False)
        assert isinstance(display, Unfailing)
        return display.shown

    assert isinstance(choose_display(as_json=True, quiet=True), Display)
    assert isinstance(fitting(as_json=True), JsonLines)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(fitting(as_json=False), PlainLines)
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(fitting(as_json=False), LivePanel)


def test_a_display_whose_output_fails_is_silent_from_then_on() -> None:
    class Broken(io.StringIO):
        tried = 0

        def write(self, text: str) -> int:
            self.tried += 1
            raise BrokenPipeError(32, "Broken pipe")

    stream = Broken()
    show(Unfailing(PlainLines(stream, seconds=0.0), stream), iterations=4)
    assert stream.tried == 1
    closed = io.StringIO()
    closed.close()
    show(Unfailing(JsonLines(closed), closed), iterations=4)


def test_a_mistake_in_what_is_shown_is_not_taken_for_a_closed_output() -> None:
    stream = io.StringIO()
    with pytest.raises(ValueError, match="JSON"):
        Unfailing(JsonLines(stream), stream).write(Progress(1, 8), {"train/loss": float("nan")})


def test_a_long_stage_shows_how_many_episodes_are_over() -> None:
    stream = io.StringIO()
    lines = PlainLines(stream, seconds=0.0)
    lines.open("x", length=RunLength(64))
    lines.advance("final evaluation", 3, 50)
    assert stream.getvalue().endswith("final evaluation: 3 of 50 episodes\n")
    stream = io.StringIO()
    rows = JsonLines(stream, seconds=0.0)
    rows.advance("final evaluation", 3, 50)
    assert json.loads(stream.getvalue()) == {
        "event": "progress",
        "stage": "final evaluation",
        "done": 3,
        "total": 50,
    }


def test_a_long_stage_writes_no_more_lines_than_training_does() -> None:
    stream = io.StringIO()
    lines = PlainLines(stream, seconds=1e9)
    lines.open("x", length=RunLength(64))
    for done in range(50):
        lines.advance("final evaluation", done, 50)
    assert len(stream.getvalue().splitlines()) == 2
