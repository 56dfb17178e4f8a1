from __future__ import annotations

import io

import pytest
from rich.console import Console

from longhaul.app.session.live import SPARKS, LivePanel, sparkline
from longhaul.core.control import Progress, RunLength

METRICS = {
    "rollout/ep_rew_mean": 177.25,
    "rollout/ep_len_mean": 180.0,
    "eval/mean_reward": 200.5,
    "train/approx_kl": 0.0123,
    "train/value_loss": 12.34,
    "time/session_fps": 25_432.0,
    "time/collect_seconds": 0.6,
    "time/learn_seconds": 0.3,
    "time/evaluate_seconds": 0.03,
    "time/checkpoint_seconds": 0.05,
    "time/other_seconds": 0.02,
}
TITLE = "gym:CartPole-v1  runs/[/odd]/20260102-120000-default-s1"


def shown(width: int, *, iterations: int = 3) -> list[str]:
    """Return the lines of the panel as it is left on the screen."""
    console = Console(file=io.StringIO(), width=width, record=True)
    panel = LivePanel(console)
    panel.open(TITLE, length=RunLength(100_000))
    for number in range(1, iterations + 1):
        panel.stage("collect")
        panel.write(Progress(number, number * 1000, number * 20), METRICS)
    panel.notice("continuing from step-000000000064")
    panel.close()
    return console.export_text().splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_the_panel_shows_what_matters_within_the_screen(width: int) -> None:
    lines = shown(width)
    text = "\n".join(lines)
    assert all(len(line) == width for line in lines)
    for said in (
        TITLE,
        "3,000 of 100,000 steps",
        "177.2",
        "200.5",
        "25,432",
        "0.0123",
        "continuing from step-000000000064",
        "done",
    ):
        assert said in text
    split = next(line for line in lines if "collect 60 %" in line)
    for share in ("learn 30 %", "evaluate 3 %", "checkpoint 5 %", "other 2 %"):
        assert share in split


@pytest.mark.parametrize("width", [30, 60])
def test_a_narrow_screen_wraps_and_breaks_nothing(width: int) -> None:
    assert all(len(line) <= width for line in shown(width))


def test_a_panel_without_measurements_is_a_panel_all_the_same() -> None:
    text = "\n".join(shown(80, iterations=0))
    assert "0 of 100,000 steps" in text
    assert "return" in text


def test_notices_outside_the_panel_are_written_as_they_are() -> None:
    console = Console(file=io.StringIO(), width=80, record=True)
    panel = LivePanel(console)
    panel.notice("device 'cuda' is not there [at all]")
    panel.open(TITLE, length=RunLength(10))
    panel.close()
    panel.notice("mean return  500.00")
    text = console.export_text()
    assert text.startswith("device 'cuda' is not there [at all]\n")
    assert text.endswith("mean return  500.00\n")


def test_the_time_split_counts_every_iteration() -> None:
    console = Console(file=io.StringIO(), width=80, record=True)
    panel = LivePanel(console)
    panel.open(TITLE, length=RunLength(10))
    panel.write(Progress(1, 5), {"time/collect_seconds": 3.0})
    panel.write(Progress(2, 10), {"time/learn_seconds": 1.0})
    panel.close()
    assert "collect 75 %  learn 25 %" in console.export_text()


def test_a_sparkline_spans_its_lowest_and_highest_value() -> None:
    assert sparkline([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], width=60) == SPARKS
    assert sparkline([5.0, 5.0], width=60) == SPARKS[0] * 2
    assert sparkline([float(n) for n in range(1000)], width=8) == SPARKS


def test_the_panel_shows_how_many_episodes_of_a_long_stage_are_over() -> None:
    console = Console(file=io.StringIO(), width=80, record=True)
    panel = LivePanel(console)
    panel.open(TITLE, length=RunLength(100_000))
    panel.advance("final evaluation", 12, 50)
    console.print(panel._draw())
    panel.close()
    assert "final evaluation: 12 of 50 episodes" in console.export_text()
